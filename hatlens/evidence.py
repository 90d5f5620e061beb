"""What a verdict rests on: every kind of evidence, what it says, and what was not measured."""

from collections.abc import Callable, Mapping
from typing import Any

Result = Mapping[str, Any]
NOT_MEASURED = "not measured"


def rests_on(result: Result) -> list[dict[str, Any]]:
    """Each kind of evidence in the order of `KINDS`: `kind`, `says`, `measured`, and the `flag`
    that measures it, empty for what every study has."""
    lines = []
    for kind, (say, flag) in KINDS.items():
        says = say(result)
        lines.append(
            {
                "kind": kind,
                "says": says or NOT_MEASURED,
                "measured": bool(says),
                "flag": flag,
            }
        )
    return lines


def rests_on_sentence(lines: list[dict[str, Any]]) -> str:
    """The same in one or two sentences."""
    there = "; ".join(f"{one['kind']}: {one['says']}" for one in lines if one["measured"])
    missing = ", ".join(f"{one['kind']} ({one['flag']})" for one in lines if not one["measured"])
    return f"It rests on {there}." + (f" Not measured: {missing}." if missing else "")


def answers(result: Result) -> str:
    """The behaviour label."""
    return str(result["behaviour"]["verdict"])


def rows(result: Result) -> str:
    """The attention label with how much was tested."""
    tested = result["rows"]["tested"]
    return f"{result['verdict']['label']} ({tested} rows tested)"


def twins(result: Result) -> str:
    """What the same rules say of each untrained twin's best least-squares row."""
    return ", ".join(f"{one['kind']}: {first_says(one)}" for one in result.get("twins") or ())


def pairs(result: Result) -> str:
    """Whether the best row moves with the other examples."""
    found = result.get("pairs")
    if not found:
        return ""
    return f"{'agree' if found['agrees'] else 'do not agree'} over {found['pairs']}"


def controls(result: Result) -> str:
    """What the rules say of the best row under every control."""
    return ", ".join(
        f"{one['kind'].replace('_', ' ')}{' ' + one['half'] if one.get('half') else ''}: "
        f"{first_says(one)}"
        for one in result.get("controls") or ()
    )


def label_of(key: str) -> Callable[[Result], str]:
    """The label of a part of the result; empty where it was not measured."""
    return lambda result: str((result.get(key) or {}).get("label") or "")


def first_says(entry: Mapping[str, Any]) -> str:
    """What the rules say of the first hypothesis' best row."""
    lines = entry.get("row_test") or ()
    return str(lines[0]["says"] if lines and lines[0]["says"] else "not assessable")


KINDS: Mapping[str, tuple[Callable[[Result], str], str]] = {
    "answers": (answers, ""),
    "rows of attention": (rows, ""),
    "untrained twins": (twins, "--twins"),
    "re-paired twin contexts": (pairs, "--pairs"),
    "controls": (controls, "--controls"),
    "behavioural row": (label_of("behavioural_row"), "--behavioural-row"),
    "cause": (label_of("cause"), "--cause"),
}
"""Kind of evidence: what it says, and the flag that measures it."""
