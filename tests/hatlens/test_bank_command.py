"""`hatlens bank`."""

import json

import pytest
import typer
from typer.testing import CliRunner

from analysis.bank import BANK
from hatlens.cli.bank import bank

app = typer.Typer()
app.command()(bank)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_lists_every_hypothesis_with_its_facts() -> None:
    listed = json.loads(run("--json", "--contexts", "8"))
    assert [line["name"] for line in listed["hypotheses"]] == list(BANK)
    first = listed["hypotheses"][0]
    assert first["affine_invariant"] is True
    assert first["counts_as_inverse"] == "counts"
    assert first["inversion_index"] == 1.0
    assert listed["design"]["contexts"] == 8


def test_undefined_is_null() -> None:
    listed = json.loads(run("--json", "--contexts", "8", "--features", "1", "ols"))
    assert listed["hypotheses"][0]["counts_as_inverse"] == "undefined"
    assert listed["hypotheses"][0]["inversion_index"] is None


def test_the_list_shows_named_hypotheses_only() -> None:
    text = run("ridge(0.05)", "pcr(1)", "--contexts", "8")
    assert "2 hypotheses" in text
    assert "ridge(0.05)" in text
    assert "ols" not in text


def test_the_verdict_follows_the_design() -> None:
    """Isotropic x: one gradient step is the same row as least squares."""
    isotropic = json.loads(run("--json", "--condition", "1", "gd(1)"))
    stretched = json.loads(run("--json", "--condition", "100", "gd(1)"))
    says = [one["hypotheses"][0]["counts_as_inverse"] for one in (isotropic, stretched)]
    assert says == ["counts", "does not count"]


def test_an_unknown_name_is_refused_with_the_near_ones() -> None:
    with pytest.raises(ValueError, match="unknown hypothesis 'olss'; near names: ols"):
        run("olss")
