"""The part of a study's page that shows what the model's answers are distributed like."""

import json
from typing import Any

import numpy as np
import pandas as pd

from analysis import figures, report_tables
from analysis.number_text import interval_text, number_text, share_text
from analysis.picture import picture, script_json
from analysis.report_part import Part, Result, Tables
from analysis.report_tables import Column, Table

MARKS = ("ols", "nearest", "mean")
SHOWN_PROBABILITY = 5e-4


def reading(anchor: str, result: Result, tables: Tables) -> Part | None:
    """Scores and calibration of the exact readings, and the distribution of any one answer."""
    found = result.get("reading")
    if not found:
        return None
    curve = picture(
        f"{anchor}-calibration",
        "Calibration: how often the truth lies below each quantile",
        "Share of truths below each quantile of the answers' distributions, with intervals; on the "
        "diagonal where calibrated",
        figures.calibration(tables["calibration"]),
    )
    return Part(
        "reading",
        "Distributions",
        "The distribution of every answer",
        [found["sentence"]],
        pictures=[curve],
        tables=[scores(found["scores"], found["outside"])],
        answers=answer_data(tables["distributions"], tables["reading"], tables["answers"]),
    )


def scores(found: dict[str, Any], outside: float) -> Table:
    """Proper scores and coverage with their intervals."""
    lines = [
        ("log score, nats, of truths with explored mass", interval_text(found["log_score_nats"])),
        ("the same of all truths, at least", interval_text(found["log_score_at_least_nats"])),
        ("truths without explored mass", f"{found['missing']} of {found['truths']}"),
        ("CRPS, printed units", interval_text(found["crps"])),
        *(
            (f"truths in the central {share_text(level)} interval", interval_text(share))
            for level, share in found["coverage"].items()
        ),
        ("largest mass left out of an answer", number_text(found["unexplored"])),
        ("mean probability of writing no number", number_text(outside)),
    ]
    return report_tables.table(
        "How well the distributions foretell the queries' own y",
        (
            Column("what", "Measure", report_tables.as_text, numeric=False),
            Column("value", "Value", report_tables.as_text),
        ),
        [{"what": what, "value": value} for what, value in lines],
    )


def answer_data(distributions: pd.DataFrame, summary: pd.DataFrame, answers: pd.DataFrame) -> str:
    """The data of the picture of one answer: its numbers, the truth, and simple predictions."""
    kept = distributions[distributions["probability"] >= SHOWN_PROBABILITY]
    groups = dict(list(kept.groupby(["context", "query"])))
    empty = kept.iloc[:0]
    every = [
        groups.get((context, query), empty)
        for context, query in zip(summary["context"], summary["query"], strict=True)
    ]
    answers = answers.iloc[: len(summary)]
    y = [*distributions["value"], *summary["truth"]]
    data = {
        "context": summary["context"].tolist(),
        "query": summary["query"].tolist(),
        "truth": _short(summary["truth"]),
        "mean": _short(summary["mean"]),
        "unexplored": _short(summary["unexplored"]),
        "greedy": answers["answer_text"].tolist(),
        "marks": {name: _short(answers[name]) for name in MARKS},
        "values": [_short(one["value"]) for one in every],
        "probabilities": [_short(one["probability"]) for one in every],
        "range": _short(pd.Series([min(y), max(y)])) if y else [0, 1],
    }
    return script_json(json.dumps(data, allow_nan=False, separators=(",", ":")))


def _short(values: "pd.Series[float]") -> list[float | None]:
    """Numbers with four significant digits, None where they are undefined."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
