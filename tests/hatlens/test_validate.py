"""`hatlens validate`: counts as JSON, and reference models that are named right."""

import json

import numpy as np
import pytest

from analysis.bank import hypothesis_named, rows
from analysis.centring import double_centred
from analysis.simulate import SimulatedDesign, simulate_contexts
from analysis.verdict import LABELS, Verdict
from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.planted_models import MECHANISMS, Mechanism, is_right, scores


def test_reference_models_are_named_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["validate", "planted-models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["mechanism"]: one["right"] for one in found} == dict.fromkeys(MECHANISMS, True)
    assert {one["label"] for one in found} <= set(LABELS)
    assert next(one["label"] for one in found if one["mechanism"] == "one gradient step") == (
        "bilinear scores with a fixed metric"
    )


def test_a_reference_models_scores_are_its_row() -> None:
    """The centred least-squares layer scores examples by the least-squares row less its 1/N."""
    contexts = simulate_contexts(SimulatedDesign(contexts=3), rng=np.random.default_rng(0))
    model = MECHANISMS["least squares, means taken off"].build(None)  # type: ignore[arg-type]
    np.testing.assert_allclose(
        double_centred(scores(model, contexts)[:, :, 0]),
        double_centred(rows(hypothesis_named("ols"), contexts)),
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("right", "label", "expected"),
    [
        (("follows S^-1 (OLS)",), "follows S^-1 (OLS)", True),
        (("follows S^-1 (OLS)",), "contains an S^-1 component", False),
        ((), "none detected", True),
        ((), "kernel or nearest", True),
        ((), "follows S^-1 (OLS)", False),
        ((), "contains an S^-1 component", False),
        ((), "not assessable", False),
    ],
)
def test_which_labels_are_right(right: tuple[str, ...], label: str, expected: bool) -> None:
    mechanism = Mechanism(MECHANISMS["ridge"].build, right)
    assert is_right(mechanism, Verdict(label, "", 0, "", "", {})) is expected


def test_the_counts_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["validate", "row-test", "--runs", "2", "--processes", "1", "--json"]
    assert run_app(app, arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 2
    assert [(one["noise"], one["contexts"], one["runs"]) for one in found["settings"]] == [
        (1.0, 64, 2),
        (0.3, 64, 2),
    ]
    for one in found["settings"]:
        assert 0 <= one["false_contains"] <= 2
        assert 0 <= one["ols_found"] <= 2
        assert all(0 <= rate <= 1 for rate in one["rejection"].values())
    # none of 2 runs: the exact upper bound solves (1 - p)^2 = .025
    if max(one["false_contains"] for one in found["settings"]) == 0:
        np.testing.assert_allclose(found["family_wise_error"]["high"], 1 - 0.025**0.5)
    assert set(found["power"]["ols"]) == {"estimate", "low", "high"}


def test_the_counts_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["validate", "row-test", "--runs", "1", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert 'noise 1, 64 contexts, 150 rows: a false "contains" in ' in out
    assert "family-wise error in the worst setting: " in out
    assert "\nols: named in " in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--grid", "ful"], "unknown grid 'ful'; near names: full"),
        (["--runs", "0"], "needed at least 1 run; came 0"),
    ],
)
def test_refusals(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["validate", "row-test", *arguments]) == 1
    assert sentence in capsys.readouterr().err
