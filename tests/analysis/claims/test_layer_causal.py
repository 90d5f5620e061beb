"""Dose curves with a known gain, and two methods that differ in how far they move alone."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    verdict_of,
)
from analysis.claims.layer_causal import (
    curve,
    gain_at_equal_norm,
    judged,
    layer_causal_finding,
    mean_between,
)
from analysis.similarity.resampling import draw_resamples

SETS, QUERIES, LAYERS = 5, 30, 4
KEY = "SimAOU (orthogonal)"
DOSES = np.array([0.25, 0.5, 1, 2, 4])


def planted(
    gain: float = 0.0,
    *,
    seed: int = 0,
    apart: float = 2.0,
    noise: float = 0.02,
    queries: int = QUERIES,
) -> tuple[Any, Any]:
    """Likeness .2 + .1 log(norm) for both, plus `gain` for the second, which moves each layer by
    up to `apart` times more or less than the first: at equal doses it looks nearer or farther."""
    rng = np.random.default_rng(seed)
    of_layers = np.stack([np.ones(LAYERS), np.geomspace(1 / apart, apart, LAYERS)])
    of_queries = np.exp(rng.normal(0, 0.2, (2, 1, SETS, queries, 1)))
    norm = 0.1 * DOSES[None, :, None, None, None] * of_layers[:, None, None, None] * of_queries
    likeness = 0.2 + 0.1 * np.log(norm) + np.array([0, gain])[:, None, None, None, None]
    of_cell = rng.normal(0, noise, (2, 1, SETS, queries, LAYERS))
    return likeness + of_cell, norm


def found(likeness: Any, norm: Any, **options: Any) -> Any:
    rng = draw_resamples(*norm.shape[2:4], rng=np.random.default_rng(1))
    return layer_causal_finding({KEY: likeness}, norm, rng=rng, **options)


def test_a_method_that_merely_moves_more_gains_nothing() -> None:
    likeness, norm = planted(noise=0.0)
    norm[1] *= 3
    likeness[1] += 0.1 * math.log(3)
    assert (likeness[1] - likeness[0]).mean() == pytest.approx(0.1 * math.log(3), abs=0.02)
    # Both are the same line over log norm, so that equal norms have equal likeness.
    one = gain_at_equal_norm(likeness, norm)
    np.testing.assert_allclose(one.gain[np.isfinite(one.gain)], 0, atol=1e-12)
    assert 0.9 < one.shared < 1
    assert found(*planted()).effect.estimate == pytest.approx(0, abs=0.01)
    assert verdict_of(found(*planted()), 0.5) == NOT_DISTINGUISHABLE


def test_curves_that_bend_cancel_nearly() -> None:
    """Interpolation errs alike on both sides: here by less than .002 of a rise of .17."""
    _, norm = planted(noise=0.0)
    likeness = norm / (norm + 0.2)
    assert abs(gain_at_equal_norm(likeness, norm).gain.mean()) < 0.002


def test_a_planted_gain_is_found() -> None:
    one = found(*planted(0.05))
    assert one.effect.low < 0.05 < one.effect.high
    assert one.effect.low > 0.03
    assert verdict_of(one, one.p) == SUPPORTED
    assert "4 of 4 layers" in one.figures


def test_a_planted_loss_contradicts() -> None:
    one = found(*planted(-0.05))
    assert one.p > 0.5
    assert verdict_of(one, one.p) == CONTRADICTED


def test_no_gain_is_found_at_the_level_of_the_test() -> None:
    """60 null data sets; 5 % is 3, and 8 or more have a chance of .2 %."""
    wrong = sum(found(*planted(seed=seed, queries=15)).p <= 0.05 for seed in range(60))
    assert wrong < 8


def test_all_measures_must_gain() -> None:
    more, norm = planted(0.05)
    less, _ = planted(-0.05)
    same, _ = planted(0.0, seed=3)
    rng = draw_resamples(SETS, QUERIES, rng=np.random.default_rng(1))
    mixed = layer_causal_finding({"a": more, "b": same}, norm, rng=rng)
    assert verdict_of(mixed, mixed.p) == NOT_DISTINGUISHABLE
    alone = layer_causal_finding({"b": same}, norm, rng=rng)
    assert (mixed.effect.low, mixed.p) == (alone.effect.low, alone.p)
    lost = layer_causal_finding({"a": more, "b": less}, norm, rng=rng)
    assert verdict_of(lost, lost.p) == CONTRADICTED
    alone = layer_causal_finding({"b": less}, norm, rng=rng)
    assert lost.effect.high >= alone.effect.high


def test_sets_that_differ_do_not_make_a_gain() -> None:
    """Gains whose sets differ and queries do not: the bootstrap alone finds one in 9 % of these.

    300 null data sets; 5 % is 15, and more than 26 have a chance of .2 %.
    """
    rng = np.random.default_rng(0)
    resamples = draw_resamples(5, 20, rng=rng)
    drawn = [rng.normal(0, 1, (5, 1, 1)) + rng.normal(0, 0.1, (5, 20, 1)) for _ in range(300)]
    assert sum(judged(one, rng=resamples).p <= 0.05 for one in drawn) <= 26


def test_what_is_gained_on_other_demonstrations_is_said() -> None:
    likeness, norm = planted(0.05)
    one = found(likeness, norm, other={KEY: planted(0.2, noise=0.0)[0]})
    assert ", to ICL on other demonstrations 0.2" in one.figures
    assert one.effect == found(likeness, norm).effect


def test_few_sets_or_queries_are_not_assessed() -> None:
    likeness, norm = planted(0.05)
    assert "came 4" in found(likeness[:, :, :4], norm[:, :, :4]).reason
    assert "fewer than 2 queries" in found(likeness[:, :, :, :1], norm[:, :, :, :1]).reason


def test_a_dose_that_diverged_is_left_out() -> None:
    likeness, norm = planted(0.05, noise=0.0)
    likeness[1, -1], norm[1, -1] = np.nan, np.nan
    one = gain_at_equal_norm(likeness, norm)
    np.testing.assert_allclose(one.gain, 0.05, atol=1e-12)
    # The shared range ends where the one that reaches less far does.
    np.testing.assert_allclose(one.high, np.minimum(norm[1, -2], norm[0, -1]))
    likeness[1, 1:] = np.nan
    assert not np.isfinite(gain_at_equal_norm(likeness, norm).gain).any()


def test_layers_without_a_common_change_are_left_out_and_counted() -> None:
    likeness, norm = planted(0.05)
    norm[1, ..., 0] *= 1e3
    one = gain_at_equal_norm(likeness, norm)
    assert (one.layers, one.shared) == (3, 0.75)
    assert one.defined.all()
    undefined = np.where(np.arange(LAYERS) == 1, np.nan, likeness)
    assert gain_at_equal_norm(undefined, norm).shared == pytest.approx(2 / 3)
    assert "3 of 4 layers, 75 %" in found(likeness, norm).figures
    norm[1] *= 1e6
    none = found(likeness, norm)
    assert "in 0 % of sets" in none.reason
    assert verdict_of(none, none.p) == NOT_ASSESSABLE
    assert not found(likeness[:, :, :0], norm[:, :, :0]).p <= 1


def test_the_difference_is_averaged_by_hand() -> None:
    # Plain: 0 at norm 1, .2 at e^2. Layer-causal: .1 at norm e, .5 at e^3. Both reach e to e^2:
    # plain runs from .1 to .2, layer-causal from .1 to .3, a mean difference of .05.
    norm = np.exp(np.array([[0.0, 2.0], [1.0, 3.0]]))[:, :, None, None, None]
    likeness = np.array([[0.0, 0.2], [0.1, 0.5]])[:, :, None, None, None]
    one = gain_at_equal_norm(likeness, norm)
    assert one.gain[0, 0, 0] == pytest.approx(0.05)
    assert (one.low.item(), one.high.item()) == pytest.approx((math.e, math.e**2))


def slow_mean(x: Any, y: Any, start: float, stop: float) -> float:
    """Of many points by interpolation."""
    at = start + (stop - start) * (np.arange(20_000) + 0.5) / 20_000
    return float(np.interp(at, x, y).mean())


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=6, unique_by=lambda x: round(x, 2)).map(sorted),
    st.integers(0, 100),
    st.floats(0, 0.45),
    st.floats(0.55, 1),
)
@settings(max_examples=40)
def test_the_mean_of_a_curve_is_that_of_many_points(
    x: Any, seed: int, first: float, last: float
) -> None:
    x, y = np.array(x), np.random.default_rng(seed).normal(size=len(x))
    start, stop = (x[0] + (x[-1] - x[0]) * one for one in (first, last))
    wanted = slow_mean(x, y, start, stop)
    padded = np.r_[x, np.nan], np.r_[y, np.nan]
    found = mean_between(padded[0], padded[1], np.array(start), np.array(stop))
    assert float(found) == pytest.approx(wanted, abs=1e-3)


def test_doses_come_in_any_order_and_undefined_ones_last() -> None:
    x, y = curve(np.array([1.0, 0.0, np.nan, 2.0]), np.array([0.2, 0.0, 0.1, np.nan]))
    np.testing.assert_allclose(x, [0, 1, np.nan, np.nan])
    np.testing.assert_allclose(y[:2], [0, 0.2])
    likeness, norm = planted(0.05)
    shuffled = [one[:, [3, 0, 4, 2, 1]] for one in (likeness, norm)]
    np.testing.assert_allclose(
        gain_at_equal_norm(*shuffled).gain, gain_at_equal_norm(likeness, norm).gain
    )


def test_one_method_is_refused() -> None:
    with pytest.raises(ValueError, match="came \\(1, 5"):
        gain_at_equal_norm(*(one[:1] for one in planted()))
