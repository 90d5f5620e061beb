"""Distributions of answers: by hand, against slow sums and integrals, and by identities."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies
from numpy.typing import NDArray

from analysis.distribution import (
    Distributions,
    covered,
    crps,
    log_score,
    mean,
    median,
    mode,
    padded,
    pit,
    quantile,
    ragged,
)
from analysis.forecast import calibration_curve, forecast

Floats = NDArray[np.float64]


def one(
    values: Sequence[float], probabilities: Sequence[float], unexplored: float = 0.0
) -> Distributions:
    return padded([[np.array(values)]], [[np.array(probabilities)]], [[unexplored]])


def at(truth: float) -> Floats:
    return np.array([[truth]])


HAND = one([1.0, 2.0, 4.0], [0.25, 0.5, 0.25])
NOTHING = one([], [], 1.0)


def test_mean_median_and_mode_by_hand() -> None:
    """1/4 + 1 + 1 = 9/4; half of the mass lies up to 2, which is the likeliest."""
    assert mean(HAND).item() == 9 / 4
    assert median(HAND).item() == 2
    assert mode(HAND).item() == 2


@pytest.mark.parametrize(
    ("level", "expected"), [(0.1, 1), (0.25, 1), (0.26, 2), (0.75, 2), (0.8, 4)]
)
def test_quantiles_by_hand(level: float, expected: float) -> None:
    assert quantile(HAND, level).item() == expected


def test_what_is_unexplored_is_left_out_of_means_and_quantiles() -> None:
    """1/5 and 3/5 of 4/5: shares 1/4 and 3/4, so the mean of 1 and 3 is 10/4."""
    partly = one([1.0, 3.0], [0.2, 0.6], 0.2)
    assert mean(partly).item() == pytest.approx(10 / 4)
    assert quantile(partly, 0.25).item() == 1
    assert mode(partly).item() == 3


def test_an_answer_without_a_number_is_not_a_number() -> None:
    both = padded(
        [[np.array([]), np.array([5.0])]],
        [[np.array([]), np.array([1.0])]],
        [[1.0, 0.0]],
    )
    truth = np.array([[5.0, 5.0]])
    for values in (mean(both), median(both), mode(both), crps(both, truth), *pit(both, truth)):
        assert np.isnan(values[0, 0])
        assert np.isfinite(values[0, 1])
    assert np.isnan(covered(both, truth, 0.5)).tolist() == [[True, False]]
    assert np.isnan(mean(NOTHING)).item()
    assert np.isnan(crps(NOTHING, at(1.0))).item()
    assert forecast(both, truth).undefined == 1


def test_log_score_by_hand() -> None:
    assert log_score(HAND, at(2.0)).nats.item() == pytest.approx(math.log(2))
    impossible = log_score(HAND, at(3.0))
    assert np.isnan(impossible.nats.item())
    assert impossible.at_least.item() == math.inf
    assert impossible.missing == 1


def test_an_unexplored_truth_is_bounded_and_counted() -> None:
    """1/8 is unexplored: a truth that was not reached costs at least log 8, and one with
    probability 3/8 at least log 2."""
    partly = one([1.0, 3.0], [0.5, 0.375], 0.125)
    unreached = log_score(partly, at(2.0))
    assert unreached.at_least.item() == pytest.approx(math.log(8))
    assert unreached.missing == 1
    reached = log_score(partly, at(3.0))
    assert reached.nats.item() == pytest.approx(math.log(8 / 3))
    assert reached.at_least.item() == pytest.approx(math.log(2))
    unknown = log_score(partly, at(math.nan))
    assert np.isnan(unknown.nats.item())
    assert unknown.missing == 0


def test_crps_by_hand() -> None:
    """Truth 3: F - 1{x >= 3} is 1/4 on [1, 2), 3/4 on [2, 3), -1/4 on [3, 4)."""
    assert crps(HAND, at(3.0)).item() == pytest.approx((1 + 9 + 1) / 16)


def test_crps_of_a_certain_answer_is_its_absolute_error() -> None:
    assert crps(one([2.5], [1.0]), at(4.0)).item() == pytest.approx(1.5)


weights = strategies.lists(strategies.integers(0, 20), min_size=1, max_size=6).filter(
    lambda drawn: sum(drawn) > 0
)


@given(weights, strategies.integers(-2, 8), strategies.floats(0, 0.9))
def test_crps_is_the_mean_distance_less_half_the_spread(
    drawn: list[int], truth: int, unexplored: float
) -> None:
    """E|X - truth| - E|X - X'| / 2 by a double sum, whatever is unexplored."""
    values, chances = np.arange(len(drawn)) ** 1.5, np.array(drawn) / sum(drawn)
    found = crps(one(values.tolist(), list(chances * (1 - unexplored)), unexplored), at(truth))
    apart = np.abs(values[:, None] - values) * chances[:, None] * chances
    expected = (np.abs(values - truth) * chances).sum() - apart.sum() / 2
    assert found.item() == pytest.approx(expected, abs=1e-9)


@given(weights, strategies.integers(-2, 8))
def test_crps_is_the_integral_of_the_squared_distance(drawn: list[int], truth: int) -> None:
    """The integral as a sum over a grid that holds every jump."""
    values, chances = np.arange(len(drawn)), np.array(drawn) / sum(drawn)
    grid = np.arange(-3, 10, 0.5)
    below = np.array([chances[values <= x].sum() for x in grid])
    integral = ((below - (grid >= truth)) ** 2).sum() / 2
    assert crps(one(values.tolist(), chances.tolist()), at(truth)).item() == pytest.approx(integral)


@given(weights, strategies.floats(0.01, 0.99))
def test_a_quantile_is_the_smallest_number_with_so_much_mass(
    drawn: list[int], level: float
) -> None:
    chances = np.array(drawn) / sum(drawn)
    found = quantile(one(list(range(len(drawn))), chances.tolist()), level).item()
    enough = [v for v in range(len(drawn)) if chances[: v + 1].sum() >= level - 1e-12]
    assert found == enough[0]


@given(weights, strategies.sampled_from([0.5, 0.8, 0.9]))
def test_a_central_interval_covers_at_least_its_level(drawn: list[int], level: float) -> None:
    """Summed over truths that are drawn from the distribution itself."""
    chances = np.array(drawn) / sum(drawn)
    same = one(list(range(len(drawn))), chances.tolist())
    inside = [covered(same, at(value), level).item() for value in range(len(drawn))]
    assert chances @ inside >= level - 1e-9


def test_coverage_by_hand() -> None:
    """Half of the mass, between its quartiles 1 and 2."""
    inside = [covered(HAND, at(t), 0.5).item() for t in (0.0, 1.0, 1.5, 2.0, 4.0)]
    assert inside == [0, 1, 1, 1, 0]


def test_probability_integral_transform_by_hand() -> None:
    below, upto = pit(HAND, at(2.0))
    assert (below.item(), upto.item()) == (1 / 4, 3 / 4)
    below, upto = pit(HAND, at(3.0))
    assert below.item() == upto.item() == 3 / 4


@given(weights)
def test_the_curve_of_calibrated_answers_is_the_diagonal(drawn: list[int]) -> None:
    """Truths drawn as often as they are foretold, each number once a unit of weight."""
    drawn = [weight for weight in drawn if weight]
    chances, values = np.array(drawn) / sum(drawn), np.arange(float(len(drawn)))
    truths = np.repeat(values, drawn)[None]
    count = truths.shape[1]
    same = padded([[values] * count], [[chances] * count], [[0.0] * count])
    levels = np.linspace(0, 1, 7)
    curve = [point.estimate for point in calibration_curve(same, truths, levels)]
    np.testing.assert_allclose(curve, levels, atol=1e-9)


@given(strategies.lists(strategies.lists(strategies.floats(-9, 9), max_size=4), min_size=1))
def test_padding_has_a_way_back(drawn: list[list[float]]) -> None:
    values = [[np.unique(one)] for one in drawn]
    chances = [[np.linspace(0, 0.5, len(one[0]))] for one in values]
    back = ragged(padded(values, chances, [[0.5]] * len(drawn)))
    for before, after in zip((values, chances), back, strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a[0], b[0])


def test_uneven_containers_are_refused() -> None:
    with pytest.raises(ValueError, match="as many probabilities as values"):
        padded([[np.array([1.0])]], [[np.array([0.5, 0.5])]], [[0.0]])
    with pytest.raises(ValueError, match="equally many queries; came"):
        padded(
            [[np.array([1.0])], []],
            [[np.array([1.0])], []],
            [[0.0], []],
        )
    with pytest.raises(ValueError, match="one truth an answer"):
        crps(HAND, np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"between 0 and 1; came 1\.0"):
        quantile(HAND, 1.0)


def test_a_forecast_counts_each_context_once() -> None:
    """Two contexts; in the second one truth is not known. Certain answers, so CRPS is the
    absolute error: means 1/2 and 3, together 7/4."""
    certain = [[np.array([1.0]), np.array([2.0])], [np.array([5.0]), np.array([6.0])]]
    sure = [[np.array([1.0])] * 2] * 2
    found = forecast(
        padded(certain, sure, [[0.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 3.0], [2.0, math.nan]])
    )
    assert found.crps.estimate == pytest.approx(7 / 4)
    assert found.truths == 3
    assert found.missing == 2
    assert found.log_score_nats.estimate == 0
    assert found.log_score_at_least_nats.estimate == math.inf
    assert found.coverage[0.5].estimate == pytest.approx((1 / 2 + 0) / 2)


def test_intervals_of_coverage_hold_the_level_of_calibrated_answers() -> None:
    """95 % intervals over 40 contexts of 8 queries, 200 studies: at least 180 hold the share of
    truths that such intervals cover, found from the distributions themselves."""
    rng = np.random.default_rng(0)
    held = 0
    values = np.arange(30.0)
    weight = np.exp(-0.5 * ((values - 15) / 5) ** 2)
    weight /= weight.sum()
    cells = padded([[values]], [[weight]], [[0.0]])
    exact = sum(w * covered(cells, at(v), 0.8).item() for v, w in zip(values, weight, strict=True))
    many = Distributions(*(np.broadcast_to(a, (40, 8, *a.shape[2:])) for a in cells))
    for _ in range(200):
        truth = rng.choice(values, size=(40, 8), p=weight)
        interval = forecast(many, truth, levels=(0.8,)).coverage[0.8]
        held += interval.low <= exact <= interval.high
    assert held >= 180
