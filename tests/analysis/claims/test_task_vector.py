"""C14 by hand, on planted runs, and its error rates by simulation."""

import math

import numpy as np
import pytest

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    Finding,
    verdict_of,
)
from analysis.claims.task_vector import MARGIN, flip_p, share_of, vector_finding
from analysis.design import Floats

ZSL, ICL = np.repeat([0.0, 1.0], (30, 10)), np.repeat([0.0, 1.0], (8, 32))
"""22 of 40 queries gained."""


def found_of(vector: Floats, **controls: Floats) -> Finding:
    return vector_finding(ZSL, ICL, vector, controls, rng=np.random.default_rng(0))


def test_a_vector_that_carries_everything_is_supported() -> None:
    found = found_of(ICL, random=ZSL, neutral=ZSL)
    assert found.effect.estimate == 1
    assert verdict_of(found, found.p) == SUPPORTED
    assert "recovers 1.00" in found.figures
    assert "0.55 right answers on 40 queries" in found.figures


def test_a_vector_that_carries_nothing_is_contradicted() -> None:
    found = found_of(ZSL, random=ZSL)
    assert found.effect.estimate == 0
    assert found.effect.high == pytest.approx(3 / 22)  # 3 of 40 queries, over a gain of 22 of 40
    assert verdict_of(found, found.p) == CONTRADICTED


def test_a_control_that_carries_as_much_is_not_beaten() -> None:
    found = found_of(ICL, random=ZSL, shuffled=ICL)
    assert "shuffled, the control that recovers most, 1.00" in found.figures
    assert found.p == 1
    assert found.effect.low < 0
    assert verdict_of(found, found.p) != SUPPORTED


def test_less_than_half_of_the_gain_is_not_the_effect() -> None:
    vector = ZSL.copy()
    vector[8:17] = 1  # 9 of 22 that ICL gained
    found = found_of(vector, random=ZSL)
    assert found.effect.estimate == pytest.approx(9 / 22)
    assert (found.beats, found.p < 0.05) == (False, True)
    assert verdict_of(found, found.p) == NOT_DISTINGUISHABLE


def test_the_share_is_that_of_the_linearised_ratio() -> None:
    """change 1 1 0 3 over gain 2 2 2 2: 5/8; residuals .5 times (change - 1.25) have sd .6292."""
    found = share_of(np.array([1.0, 1.0, 0.0, 3.0]), np.full(4, 2.0))
    assert found.estimate == pytest.approx(0.625)
    assert found.low < 0.625 - 0.6292 / 2 < 0.625 + 0.6292 / 2 < found.high


def test_three_queries_that_gain_cannot_be_told_from_chance() -> None:
    """All signs of the three must be as they are: 1 in 8, whatever the others are."""
    values = np.r_[np.ones(3), np.zeros(20)]
    assert flip_p(values, rng=np.random.default_rng(0)) == pytest.approx(1 / 8, abs=0.02)


@pytest.mark.parametrize(
    ("icl", "controls", "words"),
    [
        (ICL, {}, "no control was run"),
        (ZSL + 0.05 * (np.arange(40) < 1), {"random": ZSL}, "gains no more than 0.05"),
        (ZSL + np.r_[4.0, np.zeros(39)], {"random": ZSL}, "cannot be told from 0"),
    ],
)
def test_without_a_gain_or_a_control_nothing_is_said(
    icl: Floats, controls: dict[str, Floats], words: str
) -> None:
    found = vector_finding(ZSL, icl, icl, controls, rng=np.random.default_rng(0))
    assert words in found.reason
    assert verdict_of(found, found.p) == NOT_ASSESSABLE
    assert math.isnan(found.p)


def test_few_queries_are_too_few() -> None:
    zsl, icl = ZSL[:9], ICL[:9]
    found = vector_finding(zsl, icl, icl, {"random": zsl}, rng=np.random.default_rng(0))
    assert "9 queries are too few" in found.reason


def verdicts(share: float, *, controls: int, runs: int) -> list[str]:
    """Of runs in which ICL gains .5 and the vector `share` of it more than each control."""
    rng, found = np.random.default_rng(1), []
    for _ in range(runs):
        zsl, rate = rng.random(40) < 0.3, 0.45
        icl = zsl | (rng.random(40) < 0.7)
        both = [zsl | (rng.random(40) < rate) for _ in range(controls)]
        vector = zsl | (rng.random(40) < rate + 0.7 * share)
        named = {str(i): one.astype(float) for i, one in enumerate(both)}
        start, end, own = (one.astype(float) for one in (zsl, icl, vector))
        one = vector_finding(start, end, own, named, rng=rng)
        found.append(verdict_of(one, one.p))
    return found


@pytest.mark.parametrize("controls", [1, 4])
def test_a_vector_no_better_than_its_controls_is_seldom_supported(controls: int) -> None:
    found = verdicts(0.0, controls=controls, runs=300)
    assert found.count(SUPPORTED) <= 0.07 * 300


@pytest.mark.parametrize("controls", [1, 4])
def test_an_effect_of_the_margin_is_seldom_contradicted(controls: int) -> None:
    found = verdicts(MARGIN, controls=controls, runs=300)
    assert found.count(CONTRADICTED) <= 0.07 * 300
