"""Parts of a study's page that are there only where they were measured: one function each."""

from collections.abc import Callable

from analysis import cause_part, report_tables
from analysis.behavioural_part import behavioural
from analysis.depth_part import along
from analysis.number_text import is_missing, number_text
from analysis.reading_part import reading
from analysis.report_part import Part, Result, Tables
from analysis.report_tables import Column


def parts_of(anchor: str, result: Result, tables: Tables) -> list[Part]:
    """Every part that this study has, in the order of `MAKERS`."""
    made = (make(anchor, result, tables) for make in MAKERS)
    return [part for part in made if part is not None]


def controls(anchor: str, result: Result, tables: Tables) -> Part | None:
    """The best least-squares row, and the answers, under every control."""
    entries = result.get("controls") or []
    if not entries:
        return None
    trained = report_tables.ols_entry(result.get("row_test") or ()) or {}
    lines = [
        {"control": "none (the headline)", "answers": result["behaviour"]["verdict"], **trained}
    ]
    for one in entries:
        answers = one.get("behaviour") or {}
        lines.append(
            {
                **one["row_test"][0],
                "control": f"{one['kind'].replace('_', ' ')} {one.get('half', '')}".strip(),
                "answers": answers.get("verdict", "not run again"),
                "expected": one.get("expected", ""),
            }
        )
    columns = (
        Column("control", "Control", report_tables.as_text, numeric=False),
        report_tables.WHERE,
        report_tables.SAYS,
        *report_tables.EFFECTS[:2],
        report_tables.TESTS[-1],
        Column("answers", "Answers", report_tables.as_text, numeric=False),
        Column("expected", "If it is least squares", report_tables.as_text, numeric=False),
    )
    table = report_tables.table(
        "The row test's best OLS row of the trained model under each control, by the same rule",
        columns,
        [report_tables.with_place(line) for line in lines],
        missing="",
    )
    return Part("controls", "Controls", "Controls", [ceiling_sentence(result)], tables=[table])


def ceiling_sentence(result: Result) -> str:
    """How far two halves of the contexts agree on the map of rows."""
    found = result.get("split_half_reliability")
    if not found or is_missing(found.get("halves")):
        return "Too few rows are tested in both halves of the contexts to say how far they agree."
    return (
        f"Over {found['rows']} rows the two halves of the contexts rank the least-squares share "
        f"alike with a correlation of {number_text(found['halves'])} "
        f"({number_text(found['whole'])} for the whole set): no other agreement of maps can be "
        "asked to be higher."
    )


MAKERS: tuple[Callable[[str, Result, Tables], Part | None], ...] = (
    reading,
    behavioural,
    along,
    cause_part.cause,
    cause_part.contributions,
    controls,
)
"""One line a part; a part that a study did not measure is left out."""
