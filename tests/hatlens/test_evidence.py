"""What a verdict rests on, and what it says it does not."""

from typing import Any

from hatlens.evidence import KINDS, rests_on, rests_on_sentence

BARE: dict[str, Any] = {
    "behaviour": {"verdict": "nearest to ols"},
    "rows": {"tested": 12},
    "verdict": {"label": "none detected"},
    "twins": [{"kind": "shuffled", "row_test": [{"says": "none"}]}],
}
WHOLE = {
    **BARE,
    "pairs": {"agrees": False, "pairs": 32},
    "controls": [
        {"kind": "foreign_s", "row_test": [{"says": "none"}]},
        {"kind": "split_half", "half": "first", "row_test": [{"says": None}]},
    ],
    "behavioural_row": {"label": "equals ols"},
    "cause": {"label": "matters"},
}


def test_every_kind_is_a_line_and_what_is_missing_names_its_flag() -> None:
    lines = rests_on(BARE)
    assert [one["kind"] for one in lines] == list(KINDS)
    sentence = rests_on_sentence(lines)
    assert "answers: nearest to ols" in sentence
    assert "untrained twins: shuffled: none" in sentence
    assert sentence.endswith(
        "Not measured: re-paired twin contexts (--pairs), controls (--controls), "
        "behavioural row (--behavioural-row), cause (--cause)."
    )


def test_what_was_measured_is_said() -> None:
    says = {one["kind"]: one["says"] for one in rests_on(WHOLE)}
    assert says["re-paired twin contexts"] == "do not agree over 32"
    assert says["controls"] == "foreign s: none, split half first: not assessable"
    assert says["behavioural row"] == "equals ols"
    assert says["cause"] == "matters"
    assert "Not measured" not in rests_on_sentence(rests_on(WHOLE))


def test_no_twin_is_no_evidence() -> None:
    lines = rests_on({**BARE, "twins": []})
    assert [one["measured"] for one in lines if one["kind"] == "untrained twins"] == [False]
