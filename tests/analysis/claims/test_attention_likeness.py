"""C5 and C6: each verdict on planted likeness, what both of them need, and their words."""

import math

import numpy as np
import pytest

from analysis.claims.attention_maps import MEASURES, attention_maps_finding
from analysis.claims.attention_outputs import MARGIN, attention_outputs_finding
from analysis.claims.beside_twins import BesideTwins
from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    Finding,
    verdict_of,
)
from analysis.inference import UNDEFINED, Interval
from analysis.similarity.resampling import paired
from tests.analysis.claims.planted import ABOVE, AROUND, beside, likeness, resamples


def says(found: Finding) -> str:
    return verdict_of(found, found.p)


def maps(*gains: float, twin: Interval | None = ABOVE, seed: int = 0) -> Finding:
    return attention_maps_finding(
        {
            key: beside(gain, twin=twin, seed=10 * seed + place)
            for place, (key, gain) in enumerate(zip(MEASURES, gains, strict=True))
        }
    )


def test_outputs_get_every_verdict() -> None:
    assert says(attention_outputs_finding(beside(0.2))) == SUPPORTED
    assert says(attention_outputs_finding(beside(0.0))) == CONTRADICTED
    assert says(attention_outputs_finding(beside(0.0, noise=3.0))) == NOT_DISTINGUISHABLE
    assert says(attention_outputs_finding(beside(math.nan))) == NOT_ASSESSABLE


def test_outputs_are_judged_by_the_difference_of_the_planted_likeness() -> None:
    found = attention_outputs_finding(beside(0.2, noise=0.0))
    np.testing.assert_allclose(found.effect, 0.2, atol=1e-12)
    assert found.margin == MARGIN
    assert "SimAOU (orthogonal) 0." in found.figures
    assert "beyond shuffled twin, seed 0 by 0.200 [0.100, 0.300]" in found.figures


@pytest.mark.parametrize("twin", [AROUND, UNDEFINED, Interval(0.3, math.nan, math.nan)])
def test_a_twin_that_is_not_exceeded_leaves_both_undistinguished(twin: Interval) -> None:
    assert says(attention_outputs_finding(beside(0.2, twin=twin))) == NOT_DISTINGUISHABLE
    assert says(maps(0.2, 0.2, 0.2, twin=twin)) == NOT_DISTINGUISHABLE


def test_without_a_twin_nothing_is_assessed() -> None:
    for found in (
        attention_outputs_finding(beside(0.2, twin=None)),
        maps(0.2, 0.2, 0.2, twin=None),
    ):
        assert says(found) == NOT_ASSESSABLE
        assert "--twins" in found.reason
        assert "matched" in found.figures


def test_of_two_twins_the_nearest_is_named_and_one_that_is_undefined_before_it() -> None:
    one = beside(0.2, twin=ABOVE)
    both = one._replace(twins={**one.twins, "norms twin, seed 1": AROUND})
    assert not both.beats
    assert "beyond norms twin, seed 1 by 0.010" in both.words
    broken = one._replace(twins={**both.twins, "norms twin, seed 2": UNDEFINED})
    assert "no value of norms twin, seed 2 to exceed" in broken.words


def test_maps_get_every_verdict_and_all_must_pass() -> None:
    assert says(maps(0.2, 0.2, 0.2)) == SUPPORTED
    assert says(maps(0.0, 0.2, 0.2)) == CONTRADICTED
    for place in (1, 2):
        gains = [0.2] * 3
        gains[place] = 0.0
        assert says(maps(*gains)) == NOT_DISTINGUISHABLE
    noisy = {key: beside(0.2) for key in MEASURES}
    noisy["Kendall (inputs)"] = beside(0.0, noise=3.0)
    assert says(attention_maps_finding(noisy)) == NOT_DISTINGUISHABLE


def test_another_query_that_is_as_alike_contradicts_only_where_no_tau_is_high() -> None:
    """Tau of .3 with the query's own weights and with another's, .01 as well as .01: the first may
    be as high as was published, since queries of a task rank tokens alike; the second is none."""
    high = {key: beside(0.2) for key in MEASURES} | {MEASURES[1]: beside(0.0)}
    found = attention_maps_finding(high)
    assert found.effect.high < found.margin
    assert says(found) == NOT_DISTINGUISHABLE
    sides = [one - 0.29 for one in likeness(0.0, 0.1)]
    low = BesideTwins(paired(*sides, rng=resamples()), {"twin": ABOVE})
    assert says(attention_maps_finding({**high, MEASURES[1]: low})) == CONTRADICTED


def test_maps_have_the_largest_p_and_each_smallest_number() -> None:
    """By hand: p of .01, .02, .03; differences .3, .2, .1 with bounds in another order. The upper
    bound .2 above .3 is 2.394 / 1.960 times as far above for three at once, at 1 - .025 / 3."""
    given = [(0.01, (0.3, 0.05, 0.5)), (0.02, (0.2, 0.1, 0.6)), (0.03, (0.1, 0.08, 0.7))]
    base = beside(0.2)
    found = attention_maps_finding(
        {
            key: base._replace(found=base.found._replace(difference=Interval(*bounds), p=p))
            for key, (p, bounds) in zip(MEASURES, given, strict=True)
        }
    )
    assert found.p == 0.03
    np.testing.assert_allclose(found.effect, (0.1, 0.05, 0.3 + 0.2 * 2.394 / 1.96), rtol=1e-3)


def test_maps_name_what_is_missing_or_undefined() -> None:
    some = {MEASURES[0]: beside(0.2), MEASURES[1]: beside(math.nan)}
    found = attention_maps_finding(some)
    assert says(found) == NOT_ASSESSABLE
    assert "Kendall (queries) is undefined" in found.reason
    assert "Kendall (inputs) was not recorded" in found.reason
    assert MEASURES[0] not in found.reason


def test_maps_are_supported_by_chance_no_more_often_than_one_measure() -> None:
    """Two measures are alike, one is not: supported in at most .05 of 300, within 2.5 sd."""
    sure, rng = beside(0.2), np.random.default_rng(1)
    wrong = 0
    for seed in range(300):
        sides = rng.normal(0.3, 0.1, (2, 5, 60, 1)) + rng.normal(0, 0.1, (2, 5, 60, 1))
        null = BesideTwins(paired(*sides, rng=resamples(seed=seed, count=200)), sure.twins)
        found = attention_maps_finding(dict(zip(MEASURES, (sure, null, sure), strict=True)))
        wrong += says(found) == SUPPORTED
    assert wrong / 300 <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 300)


def test_a_likeness_that_both_sides_share_is_no_effect() -> None:
    matched, mismatched = likeness(0.1, 0.1)
    plain, shifted = (
        BesideTwins(paired(matched + s, mismatched + s, rng=resamples()), {"twin": ABOVE})
        for s in (0.0, 0.4)
    )
    np.testing.assert_allclose(
        attention_outputs_finding(plain).effect, attention_outputs_finding(shifted).effect
    )
