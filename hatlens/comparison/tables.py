"""The tidy tables of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.bootstrap import Intervals
from analysis.similarity.published import published_for
from hatlens.comparison.compare import Line
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.stored import Stored, is_trained
from hatlens.comparison.variants import Variant
from hatlens.tables import interval_columns

Rows = list[dict[str, Any]]


def all_tables(
    config: SimilarityConfig,
    stored: Sequence[Stored],
    lines: Mapping[Variant, Sequence[Line]],
    p_corrected: Sequence[float],
    answers: Mapping[str, Any],
) -> dict[str, pd.DataFrame]:
    """Every table by name; one without a line is left out."""
    rows: dict[str, Rows] = {
        "measures": measures(stored, lines, p_corrected),
        "layers": layers(stored, lines),
        "answers": answers_rows(stored),
        "fine_tuning": steps(stored),
        "norms": norms(stored),
        "heads": heads(stored),
        "published": published(config, stored, lines, answers),
    }
    return {name: pd.DataFrame(found) for name, found in rows.items() if found}


def place_of(one: Stored) -> dict[str, Any]:
    """The columns that say which model a line is of."""
    return {"model": one.variant.kind, "seed": one.variant.seed}


def measures(
    stored: Sequence[Stored], lines: Mapping[Variant, Sequence[Line]], p_corrected: Sequence[float]
) -> Rows:
    """One line a model, position, measure and comparison: its value, and matched minus it."""
    rows = []
    for one in stored:
        for place, line in enumerate(lines.get(one.variant, ())):
            where = {**place_of(one), "position": line.position, "measure": line.key}
            shape = {"sets": line.found.sets, "queries": line.found.queries}
            rows.append(
                {
                    **where,
                    "comparison": "matched",
                    **interval_columns("value", line.found.matched),
                    **shape,
                    "undefined": line.undefined,
                    "values": line.of,
                }
            )
            for condition, found in line.others.items():
                headline = is_trained(one) and condition == line.mismatch
                rows.append(
                    {
                        **where,
                        "comparison": condition,
                        **interval_columns("value", found.mismatched),
                        **interval_columns("difference", found.difference),
                        "p": found.p,
                        "p_corrected": p_corrected[place] if headline else np.nan,
                        **shape,
                    }
                )
    return rows


def layers(stored: Sequence[Stored], lines: Mapping[Variant, Sequence[Line]]) -> Rows:
    """One line a model, position, measure, comparison and layer (place among the attention
    layers): the mean over sets and queries; of the mismatch matched minus it."""
    return [
        {
            **place_of(one),
            "position": line.position,
            "measure": line.key,
            "comparison": comparison,
            "layer": layer,
            **interval_columns("value", values.at(layer)),
            **(interval_columns("difference", changes.at(layer)) if changes else {}),
        }
        for one in stored
        for line in lines.get(one.variant, ())
        for comparison, values, changes in by_comparison(line)
        if len(line.by_layer.estimate) > 1
        for layer in range(len(line.by_layer.estimate))
    ]


def by_comparison(line: Line) -> list[tuple[str, Intervals, Intervals | None]]:
    """Every comparison of a line with its values by layer, the mismatch with its difference."""
    others = [
        (name, values, line.change_by_layer if name == line.mismatch else None)
        for name, values in line.layers_of.items()
    ]
    return [("matched", line.by_layer, None), *others]


def answers_rows(stored: Sequence[Stored]) -> Rows:
    """One line a model, set, query and run: the right class, and what each rule answers."""
    rows = []
    for one in stored:
        for run in one.runs():
            logp = one.label_logp(run)
            for i, place in enumerate(one.sets):
                for query, gold in enumerate(one.gold[i]):
                    right = logp[i, query, gold]
                    rows.append(
                        {
                            **place_of(one),
                            "set": place,
                            "query": query,
                            "run": run,
                            "gold": int(gold),
                            "answer_sum": int(logp[i, query, :, 0].argmax()),
                            "answer_mean": int(logp[i, query, :, 1].argmax()),
                            "log_probability_sum": float(right[0]),
                            "log_probability_mean": float(right[1]),
                        }
                    )
    return rows


def fit_entry(one: Stored, place: int, run: str) -> dict[str, Any]:
    """How one fine-tuning went, for the result: its rate, the norm it reached, its losses."""
    found = one.fits(place)[run]
    losses = found.get("losses")
    return {
        **place_of(one),
        "set": place,
        "run": run,
        "rate": float(found["rate"]),
        "relative_norm": float(found["norm"]),
        "loss": None if losses is None else float(np.mean(losses)),
        "base_loss": None if losses is None else float(np.mean(found["base_losses"])),
        "closing_loss": None if losses is None else float(found["closing_loss"]),
        "failed": str(found["failed"]),
    }


def steps(stored: Sequence[Stored]) -> Rows:
    """One line a model, set, fine-tuning and step: losses in nats, norm of the step's change."""
    rows = []
    for one in stored:
        for place, run in one.pairs():
            found = one.fits(place)[run]
            if "losses" not in found:
                continue
            sizes = np.linalg.norm(found["step_norms"], axis=1)
            for step, loss in enumerate(found["losses"]):
                rows.append(
                    {
                        **place_of(one),
                        "set": place,
                        "run": run,
                        "step": step,
                        "loss": float(loss),
                        "base_loss": float(found["base_losses"][step]),
                        "update_norm": float(sizes[step]),
                        "rate": float(found["rate"]),
                    }
                )
    return rows


def norms(stored: Sequence[Stored]) -> Rows:
    """One line a model, set, fine-tuning and layer: |h_FT - h_ZSL| / |h_ZSL|, and the sum of the
    norms of the layer's steps (NaN where no weight of it moves)."""
    rows = []
    for one in stored:
        for place, run in one.pairs():
            found = one.fits(place)[run]
            if "norms" not in found:
                continue
            sums = found["step_norms"].sum(axis=0)
            moved = dict(zip(found["layers"].tolist(), sums, strict=True))
            for layer, norm in enumerate(found["norms"]):
                rows.append(
                    {
                        **place_of(one),
                        "set": place,
                        "run": run,
                        "layer": layer,
                        "relative_norm": float(norm),
                        "step_norms": float(moved.get(layer, np.nan)),
                    }
                )
    return rows


def heads(stored: Sequence[Stored]) -> Rows:
    """One line a model, comparison, layer and key/value head: mean cosine of Delta W."""
    rows = []
    for one in stored:
        names = {key for cell in one.cells.values() for key in cell if key.startswith("heads/")}
        for name in sorted(names):
            sums = np.sum([cell[name] for cell in one.cells.values() if name in cell], axis=0)
            for layer in range(sums.shape[1]):
                for head in range(sums.shape[2]):
                    total, count = sums[:, layer, head]
                    rows.append(
                        {
                            **place_of(one),
                            "comparison": name.removeprefix("heads/"),
                            "layer": layer,
                            "kv_head": head,
                            "cosine": total / count if count else np.nan,
                            "queries": int(count),
                        }
                    )
    return rows


def published(
    config: SimilarityConfig,
    stored: Sequence[Stored],
    lines: Mapping[Variant, Sequence[Line]],
    answers: Mapping[str, Any],
) -> Rows:
    """Published values on this task and way of fine-tuning, this run's beside them."""
    ours = {line.key: line.found.matched.estimate for line in lines.get(stored[0].variant, ())}
    if answers.get("rec2ftp"):
        ours["Rec2FTP"] = answers["rec2ftp"]["value"].estimate
    return [
        {**one._asdict(), "ours": ours.get(one.measure, np.nan)}
        for one in published_for(config.task, config.ft)
        if one.task == config.task or config.task in SIX
    ]


SIX = ("sst2", "sst5", "mr", "subj", "agnews", "cb")
