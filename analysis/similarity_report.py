"""The page of one comparison of in-context learning with fine-tuning, self-contained."""

import json
import re
from collections.abc import Sequence

from analysis import report_tables
from analysis.claims_part import claims_table
from analysis.dose_figure import dose_pictures
from analysis.number_text import interval_text, number_text, p_text
from analysis.page import filled
from analysis.report import plain
from analysis.report_facts import Fact, Facts
from analysis.report_tables import Table
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.verdict import PRIMARY
from analysis.similarity_demonstrations import near_part, order_part
from analysis.similarity_headline import (
    TWINS_SAY,
    group_name,
    headline,
    key_of,
    twin_p_text,
    twins_of,
)
from analysis.similarity_layers import PICTURED, layered
from analysis.similarity_numbers import absolute_errors, study_part
from analysis.similarity_run_facts import (
    RUNS,
    Result,
    Tables,
    figure_column,
    fine_tuning,
    labels,
    losses,
    run_facts,
    text_column,
)
from analysis.task_vector_figure import task_vector_part

AVERAGE = "mean of six tasks, this one among them"


def render(result: Result, tables: Tables) -> str:
    """The whole page as text: styles, script, figures and numbers inside, nothing loaded."""
    task = result["task"]
    return filled(
        "similarity.html.j2",
        title=f"HatLens: {result['model']['name']}, ICL against FT on {task['task']}",
        head=headline(result),
        primary=PRIMARY,
        warnings=result["warnings"],
        claims=claims_table(result),
        accuracy=accuracy(result),
        absolute_errors=absolute_errors(result),
        study=study_part(result),
        measures=measures(result, evidence=True),
        described=measures(result, evidence=False),
        twins_say=TWINS_SAY if twins_of(result) else "",
        layered=layered(tables),
        doses=dose_pictures(tables.get("dose")),
        baselines=baselines(result),
        recovered=recovered(result),
        task_vector=task_vector_part(result, tables),
        near=near_part(result, tables),
        order=order_part(result),
        model=result["model"]["name"],
        published=published(tables),
        fine_tuning=fine_tuning(result),
        losses=losses(tables),
        prompt=result["prompts"]["prompt"],
        labels=labels(result),
        run=run_facts(result),
        result_json=result_text(result),
    )


def result_text(result: Result) -> str:
    """The result as JSON, each interval on one line."""
    text = json.dumps(plain(result), indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(
        r'\{\s+("estimate": \S+)\s+("low": \S+)\s+("high": \S+)\s+\}', r"{\1 \2 \3}", text
    )


def accuracy(result: Result) -> Table:
    """How often each run answers rightly, and how likely the right answer is to it."""
    shares = result.get("accuracy_of") or {}
    likely = result.get("log_probability") or {}
    disagree = result.get("label_rules_disagree") or {}
    lines = [
        {
            "run": RUNS.get(run, run),
            "accuracy": interval_text(shares.get(run)),
            "likely": interval_text(likely[run]),
            "disagree": number_text(disagree.get(run)),
        }
        for run in [name for name in RUNS if name in likely]
    ]
    columns = (
        text_column("run", "Run"),
        figure_column("accuracy", "Right answers"),
        figure_column("likely", "Log-probability of the right answer, nats"),
        *(
            [figure_column("disagree", "Answers on which sum and mean of a label disagree")]
            if any(disagree.values())
            else []
        ),
    )
    return report_tables.table("Each run on the same queries, with 95 % intervals", columns, lines)


def measures(result: Result, *, evidence: bool) -> Table:
    """Matched minus mismatched of measures that are evidence, or of those described only."""
    words = {one["measure"]: one["says"] for one in result["verdict"]["measures"]}
    kinds = {kind: len(twins) for kind, twins in twins_of(result).items()}
    lines = []
    for one in result["metrics"]:
        if one["evidence"] != evidence:
            continue
        key = key_of(one)
        lines.append(
            {
                "measure": key,
                "position": one["position"],
                "matched": interval_text(one["matched"]),
                "mismatched": interval_text(one["mismatched"]),
                "difference": interval_text(one["difference"]),
                "mismatch": one["mismatch"] or "none",
                "p": p_text(one["p_corrected"]),
                "says": words.get(key, words.get(f"{key}, {one['position']}", "")),
                "undefined": f"{one['undefined']['count']} of {one['undefined']['of']}",
                **{f"twin {kind}": twin_p_text(one, kind) for kind in kinds},
            }
        )
    tested = (
        text_column("says", "Says"),
        figure_column("difference", "Difference"),
        figure_column("p", "Corrected p"),
        *(
            figure_column(f"twin {kind}", f"p among {group_name(kind, count)}")
            for kind, count in kinds.items()
        ),
    )
    several = len({one["position"] for one in result["metrics"]}) > 1
    columns = (
        text_column("measure", "Measure"),
        *([text_column("position", "Position")] if several else []),
        *(tested if evidence else [figure_column("difference", "Difference")]),
        figure_column("matched", "Matched"),
        figure_column("mismatched", "Mismatched"),
        text_column("mismatch", "Mismatch"),
        figure_column("undefined", "Undefined"),
    )
    what = "that are evidence" if evidence else "that are described only"
    caption = f"Measures {what}: mean over layers and queries, with 95 % intervals"
    return report_tables.table(caption, columns, lines)


def baselines(result: Result) -> Table:
    """Everything that must stand beside the headline, for the primary measure of each kind."""
    shown = [key for key in PICTURED if key != "update norm (FT)"]
    lines = [_baseline("the model: ICL on D against FT on D", result["metrics"], shown, MATCHED)]
    for one in result["baselines"]:
        if one["kind"] in CONDITIONS:
            said = f"the model: {CONDITIONS[one['kind']].statement}"
            lines.append(_baseline(said, one["metrics"], shown, one["kind"]))
        else:
            name = f"{one['kind']} twin, seed {one['seed']}"
            lines.append(_baseline(f"{name}: matched", one["metrics"], shown, MATCHED))
            lines.append(_difference(f"{name}: matched minus mismatched", one["metrics"], shown))
    columns = (
        text_column("who", "Compared"),
        *(figure_column(key, key) for key in shown),
    )
    return report_tables.table("Every baseline", columns, lines, missing="")


def _baseline(who: str, metrics: Sequence[Result], shown: Sequence[str], kind: str) -> Result:
    side = "matched" if kind == MATCHED else "mismatched"
    return {"who": who, **_cells(metrics, shown, side)}


def _difference(who: str, metrics: Sequence[Result], shown: Sequence[str]) -> Result:
    return {"who": who, **_cells(metrics, shown, "difference")}


def _cells(metrics: Sequence[Result], shown: Sequence[str], side: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in metrics:
        key = key_of(one)
        if key in shown and key not in found:
            found[key] = interval_text(one[side])
    return found


def recovered(result: Result) -> Facts | None:
    """Rec2FTP as counts."""
    found = result.get("rec2ftp")
    if not found:
        return None
    other = found.get("mismatched")
    facts = [
        Fact("ZSL wrong and FT right", number_text(found["denominator"])),
        Fact("of these, ICL right too", number_text(found["numerator"])),
        Fact(
            "Rec2FTP",
            interval_text(found["value"]),
            "" if found["assessable"] else "fewer than 30 in the denominator: not assessable",
        ),
        Fact(
            "chance line", interval_text(found["chance"]), "ICL right among all that ZSL got wrong"
        ),
        Fact("ZSL right and FT wrong", number_text(found["broken"])),
        Fact("of these, ICL wrong too", number_text(found["broken_too"])),
    ]
    if other:
        counts = f"{other['numerator']} of {other['denominator']}"
        facts.append(
            Fact("FT on other demonstrations", interval_text(other["value"]), f"{counts} queries")
        )
    return Facts("Rec2FTP: of what FT gets right, how much ICL does", tuple(facts))


def published(tables: Tables) -> Table | None:
    """Published values beside this run's, where the task matches: its own before the averages."""
    found = tables.get("published")
    if found is None:
        return None
    columns = (
        text_column("measure", "Measure"),
        figure_column("ours", "This run"),
        figure_column("value", "Published"),
        text_column("task", "On"),
        text_column("model", "On which model"),
        text_column("source", "Source"),
    )
    lines = [
        {
            **row,
            "ours": number_text(row["ours"]),
            "value": number_text(row["value"]),
            "task": AVERAGE if row["task"] == "average" else row["task"],
            "source": f"arXiv {row['source']}",
        }
        for row in found.sort_values("task", key=lambda names: names == "average").to_dict(
            "records"
        )
    ]
    return report_tables.table("Published values beside this run's", columns, lines)
