"""The table of claims: verdicts on planted cells, what is missing, the correction, the page."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    VERDICTS,
    Finding,
)
from analysis.claims.order import LEAST_QUERIES
from analysis.claims_part import claims_table
from analysis.inference import ALPHA, Interval, smallest_flip_p
from analysis.similarity.resampling import holm
from hatlens.comparison.claims import CLAIMS, claims_result, sentence_of
from hatlens.comparison.judging import Judging, output_change_claim
from tests.hatlens.comparison.planted_cells import QUERIES, planted, settings

DOCS = Path(__file__).parents[3] / "docs" / "claims.md"
ON_SETS = ("C5", "C6", "C7", "C10")
"""Claims that are judged on the sets and queries of every comparison."""


def by_id(judging: Judging) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in claims_result(judging)}


def verdicts(judging: Judging) -> dict[str, str]:
    return {name: one["verdict"] for name, one in by_id(judging).items() if name in ON_SETS}


def test_what_is_planted_is_supported(tmp_path: Path) -> None:
    found = by_id(planted(tmp_path))
    for name in ON_SETS:
        assert found[name]["verdict"] == SUPPORTED, found[name]["sentence"]
    assert found["C5"]["effect"].estimate == pytest.approx(0.2, abs=0.03)
    assert found["C10"]["effect"].estimate == pytest.approx(0.7, abs=0.05)
    assert found["C7"]["effect"].low > 0


def test_what_is_not_there_is_contradicted_or_undecided(tmp_path: Path) -> None:
    found = verdicts(planted(tmp_path / "none", gain=0.0, shared=0.0, place=0.0))
    assert found["C5"] == found["C6"] == found["C10"] == CONTRADICTED
    assert found["C7"] in (CONTRADICTED, NOT_DISTINGUISHABLE)
    noisy = verdicts(planted(tmp_path / "noisy", gain=0.0, noise=3.0, shared=0.0, place=0.0))
    assert noisy["C5"] == noisy["C6"] == NOT_DISTINGUISHABLE


def test_a_twin_that_is_as_alike_leaves_likeness_undecided(tmp_path: Path) -> None:
    found = by_id(planted(tmp_path, twin_gain=0.2))
    assert found["C5"]["verdict"] == found["C6"]["verdict"] == NOT_DISTINGUISHABLE
    assert found["C7"]["verdict"] == SUPPORTED
    assert "beyond the shuffled twin, seed 0 by" in found["C5"]["sentence"]


def test_a_twin_of_another_update_norm_is_not_exceeded(tmp_path: Path) -> None:
    judging = planted(tmp_path)
    for cell in judging.stored[1].cells.values():
        cell["fit/ft-other/norm"] = np.array(0.02)  # type: ignore[index]
    found = by_id(judging)
    assert found["C5"]["verdict"] == NOT_DISTINGUISHABLE
    assert "no value of the shuffled twin, seed 0 to exceed" in found["C5"]["sentence"]


def test_a_twin_that_diverged_on_other_demonstrations_is_not_exceeded(tmp_path: Path) -> None:
    """On one set only: the others are fewer than the model's difference is the mean of."""
    judging = planted(tmp_path)
    cell = judging.stored[1].cells[2]
    cell["fit/ft-other/norm"] = np.array(np.nan)  # type: ignore[index]
    for key in [one for one in cell if one.startswith("answer/other demonstrations/")]:
        del cell[key]  # type: ignore[attr-defined]
    found = by_id(judging)
    assert found["C5"]["verdict"] == NOT_DISTINGUISHABLE
    assert "no value of the shuffled twin, seed 0 to exceed" in found["C5"]["sentence"]


def reasons(judging: Judging, name: str) -> str:
    found = by_id(judging)[name]
    assert found["verdict"] == NOT_ASSESSABLE
    assert math.isnan(found["p_corrected"])
    return str(found["sentence"])


@pytest.mark.parametrize("name", ON_SETS)
def test_few_sets_are_not_assessable(name: str, tmp_path: Path) -> None:
    said = reasons(planted(tmp_path, config=settings(sets=4)), name)
    assert "needed 5 sets of demonstrations, came 4 (--sets 5)" in said


@pytest.mark.parametrize("name", ON_SETS)
def test_a_fine_tuning_that_diverged_everywhere_is_not_assessable(
    name: str, tmp_path: Path
) -> None:
    said = reasons(planted(tmp_path, cells={"failed": "the loss is infinite"}), name)
    assert "fine-tuning diverged on every set" in said


@pytest.mark.parametrize("name", ON_SETS)
def test_without_other_demonstrations_nothing_is_assessable(name: str, tmp_path: Path) -> None:
    gone = dict.fromkeys(("labels/ft-other", "labels/icl-other", "fit/ft-other/norm"))
    assert "no other demonstrations" in reasons(planted(tmp_path, cells=gone), name)


@pytest.mark.parametrize("name", ["C5", "C6", "C10"])
def test_an_unequal_update_norm_is_not_assessable(name: str, tmp_path: Path) -> None:
    judging = planted(tmp_path, cells={"fit/ft-other/norm": 0.2})
    assert "2 times as far as FT" in reasons(judging, name)
    assert by_id(judging)["C7"]["verdict"] == SUPPORTED


@pytest.mark.parametrize(
    ("name", "gone", "said"),
    [
        (
            "C5",
            {"answer/matched/SimAOU (orthogonal)": np.full((QUERIES, 2), np.nan)},
            "is undefined matched: an update is zero",
        ),
        ("C6", {"answer/other query/Kendall (inputs)": None}, "Kendall (inputs)"),
        ("C7", {f"labels/{r}": np.zeros((QUERIES, 1, 2)) for r in ("zsl", "ft")}, "not labels"),
        ("C10", {"answer/another order/total variation": None}, "no other order"),
    ],
)
def test_what_is_missing_is_said(
    name: str, gone: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert said in reasons(planted(tmp_path, cells=gone), name)


def test_likeness_needs_a_twin(tmp_path: Path) -> None:
    judging = planted(tmp_path, config=settings(twins=()))
    for name in ("C5", "C6"):
        assert "--twins" in reasons(judging, name)


def test_outputs_are_judged_at_the_answer_alone(tmp_path: Path) -> None:
    moved = planted(tmp_path)._replace(config=settings(position="label0"))
    assert "--position answer" in output_change_claim(moved).reason


def test_claims_that_were_not_asked_for_name_their_flag(tmp_path: Path) -> None:
    judging = planted(tmp_path)
    flags = {name: claim.needs for name, claim in CLAIMS.items() if claim.needs.startswith("--")}
    assert set(flags) == set(CLAIMS) - set(ON_SETS)
    for name, needed in flags.items():
        assert needed in reasons(judging, name)


def test_p_is_corrected_over_the_claims_that_were_assessed(tmp_path: Path) -> None:
    found = claims_result(planted(tmp_path, place=0.3, gain=0.01))
    some = [one for one in found if one["verdict"] != NOT_ASSESSABLE]
    assert {one["id"] for one in some} == set(ON_SETS)
    assert [one["p_corrected"] for one in some] == holm([one["p"] for one in some])
    assert some[0]["p_corrected"] > some[0]["p"]


def test_the_least_number_of_queries_lets_a_p_survive() -> None:
    assert smallest_flip_p(LEAST_QUERIES) * len(CLAIMS) <= ALPHA
    assert smallest_flip_p(LEAST_QUERIES - 1) * 9 > ALPHA


def test_a_sentence_says_verdict_effect_and_what_it_is_compared_with() -> None:
    found = Finding(Interval(0.2, 0.1, 0.3), 0.001, 0.05, figures="so much against so much")
    assert sentence_of(found, 0.004) == (
        "Supported: effect 0.200 [0.100, 0.300], least worth a claim 0.05, corrected p 0.004; "
        "so much against so much."
    )
    undefined = Finding(figures="as it is")
    assert sentence_of(undefined, math.nan) == (
        "Not assessable: its test is undefined. As description only: as it is."
    )


def test_the_page_shows_every_claim(tmp_path: Path) -> None:
    result = {"claims": claims_result(planted(tmp_path))}
    table = claims_table(result)
    assert [row[0] for row in table.rows] == list(CLAIMS)
    shown = dict(zip(table.headings, table.rows[0], strict=True))
    assert shown["Verdict"] == SUPPORTED
    assert re.fullmatch(r"0\.\d+ \[0\.\d+, 0\.\d+\]", shown["Effect"])
    unasked = dict(zip(table.headings, table.rows[-1], strict=True))
    assert (unasked["Verdict"], unasked["Effect"], unasked["Corrected p"]) == (
        NOT_ASSESSABLE,
        "none",
        "none",
    )


def test_every_claim_and_verdict_is_in_the_docs() -> None:
    text = " ".join(DOCS.read_text(encoding="utf-8").split())
    for name, claim in CLAIMS.items():
        assert f"## {name}: {claim.sentence}" in text
        section = text.split(f"## {name}: ")[1].split("## ")[0]
        for source in re.findall(r"\d{4}\.\d{5}", claim.source):
            assert source in section, name
        if claim.needs.startswith("--"):
            assert f"`{claim.needs}`" in section, name
    for verdict in VERDICTS:
        assert f"**{verdict}**" in text
    for name in ("C1", "C2", "C3", "C4"):
        assert name not in CLAIMS
        assert re.search(rf"\b{name}\b", text)
