"""The first line says model, task, behaviour, label, effect, p and twins."""

from typing import Any

import pytest

from analysis.report_facts import lead_and_rest
from hatlens.headline import answer_words, headline


def entry(**changed: Any) -> dict[str, Any]:
    share = {"estimate": 0.31, "low": 0.21, "high": 0.42}
    base = {"hypothesis": "ols", "layer": 12, "head": 3, "part": "y", "p_corrected": 0.0005}
    return {**base, "unique_over_explained": share, **changed}


def result(label: str, behaviour: str) -> dict[str, Any]:
    return {
        "model": {"name": "tiny"},
        "task": {"data": None, "features": 2, "condition": 100.0, "examples": 20},
        "verdict": {"label": label},
        "behaviour": {"verdict": behaviour},
        "row_test": [entry()],
        "twins": [{"kind": "shuffled", "row_test": [entry(layer=None, head=None)]}],
    }


def test_a_finding_is_said_with_effect_interval_p_and_twin() -> None:
    assert headline(result("contains an S^-1 component", "nearest to ols")) == (
        "tiny, 2 features, condition 100, 20 examples: the answers beat the mean and are nearest "
        "to ols; the verdict on attention is: contains an S^-1 component (best least-squares row "
        "L12H3 on y: unique share 0.310 [0.210, 0.420], corrected p 0.0005; shuffled twin none, "
        "since no row sees the query)."
    )


def test_it_is_the_report_s_first_sentence() -> None:
    line = headline(result("not assessable", "does not beat the mean"))
    assert "the answers do not beat the mean; attention is not assessable" in line
    assert lead_and_rest(f"{line} More follows.") == (line, "More follows.")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("not assessable: 3 contexts", "the answers are not assessable: 3 contexts"),
        ("not separable among a, b", "the answers beat the mean and are not separable among a, b"),
        ("beats the mean", "the answers beat the mean"),
    ],
)
def test_behaviour_labels_become_predicates(label: str, words: str) -> None:
    assert answer_words(label) == words


def test_an_undefined_effect_is_called_undefined() -> None:
    nothing = {"estimate": None, "low": None, "high": None}
    shown = {**result("none detected", "beats the mean")}
    shown["row_test"] = [entry(unique_over_explained=nothing, p_corrected=None, head=-1)]
    assert "L12sum on y: unique share undefined, corrected p undefined" in headline(shown)
