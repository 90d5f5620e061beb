"""The part of a comparison's page on the published claims."""

from collections.abc import Mapping
from typing import Any

from analysis import report_tables
from analysis.number_text import interval_text, p_text
from analysis.report_tables import Column, Table

Result = Mapping[str, Any]
COLUMNS = {
    "id": "Id",
    "claim": "Claim",
    "source": "By",
    "verdict": "Verdict",
    "effect": "Effect",
    "p": "Corrected p",
    "sentence": "In words",
}
NUMBERS = ("effect", "p")


def claims_table(result: Result) -> Table:
    """One line a claim; what was not assessed has no effect and no p, and says why."""
    lines = [
        {
            **{key: str(one[key]) for key in ("id", "claim", "source", "verdict", "sentence")},
            "effect": interval_text(one["effect"], missing="none"),
            "p": p_text(one["p_corrected"], missing="none"),
        }
        for one in result["claims"]
    ]
    columns = [
        Column(key, heading, report_tables.as_text, numeric=key in NUMBERS)
        for key, heading in COLUMNS.items()
    ]
    caption = "Each claim with its effect beyond the control, and p corrected over those assessed"
    return report_tables.table(caption, columns, lines)
