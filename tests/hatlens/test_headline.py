"""The first line says model, task, behaviour, label, effect, p and twins."""

from typing import Any

import pytest

from analysis.report_facts import lead_and_rest
from hatlens.headline import answer_words, headline


def entry(**changed: Any) -> dict[str, Any]:
    share = {"estimate": 0.31, "low": 0.21, "high": 0.42}
    base = {"hypothesis": "ols", "layer": 12, "head": 3, "part": "y", "p_corrected": 0.0005}
    return {**base, "unique_of_variance": share, **changed}


def answers(
    verdict: str, *, mean: bool | None = True, nearest: bool | None = False
) -> dict[str, Any]:
    return {"verdict": verdict, "beats_mean": mean, "beats_nearest": nearest}


def result(label: str, behaviour: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": {"name": "tiny"},
        "task": {"data": None, "features": 2, "condition": 100.0, "examples": 20},
        "verdict": {"label": label},
        "behaviour": behaviour,
        "design": {"mde": 0.07, "identifies": True},
        "row_test": [entry()],
        "twins": [{"kind": "shuffled", "row_test": [entry(layer=None, head=None)]}],
    }


def test_a_finding_is_said_with_effect_interval_p_and_twin() -> None:
    assert headline(result("contains an S^-1 component", answers("nearest to ols"))) == (
        "tiny, 2 features, condition 100, 20 examples: the answers beat the mean but not the "
        "nearest example and are nearest to ols; the verdict on attention is: contains an S^-1 "
        "component (the row test's best least-squares row L12H3 on y: unique share of variance "
        "0.310 [0.210, 0.420], corrected p 0.0005; 7 % would have been found; shuffled twin none, "
        "since no row sees the query)."
    )


def test_with_one_feature_no_effect_is_named() -> None:
    shown = result("not assessable", answers("beats the mean"))
    shown["task"] = {**shown["task"], "features": 1}
    assert headline(shown) == (
        "tiny, 1 feature, 20 examples: the answers beat the mean but not the nearest example; "
        "attention is not assessable with one feature."
    )


def test_a_preview_says_so_first() -> None:
    shown = {**result("none detected", answers("beats the mean")), "preview": "16 contexts"}
    assert headline(shown).startswith("Preview: tiny, 2 features")


def test_no_effect_is_named_where_the_design_cannot_identify_one() -> None:
    shown = result("not assessable", answers("beats the mean"))
    shown["design"] = {"mde": None, "identifies": False}
    assert headline(shown).endswith("attention is not assessable: these contexts cannot tell.")


def test_it_is_the_report_s_first_sentence() -> None:
    line = headline(result("not assessable", answers("does not beat the mean", mean=False)))
    assert "the answers do not beat the mean; attention is not assessable" in line
    assert "would have been found" not in line
    assert lead_and_rest(f"{line} More follows.") == (line, "More follows.")


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (
            answers("not assessable: 3 contexts", mean=None, nearest=None),
            "the answers are not assessable: 3 contexts",
        ),
        (answers("not separable among a, b", nearest=True), "the answers beat the mean"),
        (
            answers("nearest to ols", nearest=True),
            "the answers beat the mean and are nearest to ols",
        ),
    ],
)
def test_behaviour_becomes_a_predicate(behaviour: dict[str, Any], words: str) -> None:
    assert answer_words(behaviour) == words


def test_an_undefined_effect_is_called_undefined() -> None:
    nothing = {"estimate": None, "low": None, "high": None}
    shown = result("none detected", answers("beats the mean"))
    shown["row_test"] = [entry(unique_of_variance=nothing, p_corrected=None, head=-1)]
    assert "L12sum on y: unique share of variance undefined, corrected p undefined" in headline(
        shown
    )
