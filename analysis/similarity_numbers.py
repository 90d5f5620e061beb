"""Of regression prompts: absolute errors of the runs, and the study of the same examples."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis import report_tables
from analysis.number_text import interval_text, number_text, p_text
from analysis.report_facts import Fact, Facts
from analysis.report_tables import Table
from analysis.similarity_run_facts import RUNS, Result, figure_column, text_column

LAYER_SUM = -1


class StudyPart(NamedTuple):
    """The study's first sentence, its figures, and where its own page is."""

    sentence: str
    link: str
    facts: Facts


def absolute_errors(result: Result) -> Table | None:
    """How far each run's answers are from y and from least squares; None of labels."""
    found = result.get("absolute_error")
    if not found:
        return None
    lines = [
        {
            "who": RUNS.get(run, run),
            "y": interval_text(one["y"]),
            "least_squares": interval_text(one["least_squares"]),
            "unread": number_text(one["unread"]),
        }
        for run, one in found["runs"].items()
    ]
    rivals = (("least squares of the demonstrations", "least_squares"), ("their mean y", "mean"))
    lines += [{"who": name, "y": interval_text(found[key])} for name, key in rivals]
    columns = (
        text_column("who", "Answers of"),
        figure_column("y", "Mean distance to y"),
        figure_column("least_squares", "Mean distance to least squares"),
        figure_column("unread", "Answers that are no number"),
    )
    caption = (
        f"Absolute errors, {found['unit']}, of greedy answers to {found['queries']} queries a set, "
        "with 95 % intervals"
    )
    return report_tables.table(caption, columns, lines, missing="")


def study_part(result: Result) -> StudyPart | None:
    """What the study of the same examples found of attention rows; None without one."""
    study = result.get("study")
    if not study:
        return None
    facts = [
        Fact("verdict on attention", study["label"]),
        *_row_facts("best least-squares row", study["row"]),
        *(
            fact
            for twin in study["twins"]
            for fact in _row_facts(f"the same of the {twin['kind']} twin", twin["row"])[:1]
        ),
        Fact("answers", study["behaviour"]),
        Fact(
            "contexts",
            number_text(study["contexts"]),
            "main context s holds the examples and queries of set s here",
        ),
    ]
    return StudyPart(study["sentence"], study["link"], Facts("Attention rows", tuple(facts)))


def _row_facts(name: str, row: Mapping[str, Any] | None) -> list[Fact]:
    if row is None or row["layer"] is None:
        said = "was not tested" if row is None else "none: no row sees the query"
        return [Fact(name, said)]
    head = "sum of heads" if row["head"] == LAYER_SUM else f"H{row['head']}"
    place = f"L{row['layer']} {head} on {row['part']}"
    share = interval_text(row["unique_of_variance"])
    return [
        Fact(f"{name}: unique share of variance", share, place),
        Fact(
            f"{name}: unique over explained",
            interval_text(row["unique_over_explained"]),
            place,
        ),
        Fact(f"{name}: corrected p", p_text(row["p_corrected"])),
    ]
