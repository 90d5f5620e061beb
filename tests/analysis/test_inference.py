"""Intervals: by hand, against other code, and covered by simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.inference import mean_interval, proportion_interval, ratio_interval, smallest_flip_p


def test_mean_of_symmetric_units_has_the_t_interval() -> None:
    """1, 3, 5: mean 3, variance 4, standard error 2/sqrt(3); t of 2 degrees 4.302653."""
    half = 4.302653 * 2 / np.sqrt(3)
    assert_allclose(mean_interval(np.array([1.0, 3, 5])), [3, 3 - half, 3 + half], rtol=1e-6)


def test_intervals_that_hold_together_are_wider() -> None:
    """Ten comparisons of three units: t of 2 degrees at 1 - .0025 is 14.08905."""
    values, ones = np.array([1.0, 3, 5]), np.ones(3)
    half = 14.08905 * 2 / np.sqrt(3)
    expected = [3, 3 - half, 3 + half]
    assert_allclose(ratio_interval(values, ones, comparisons=10), expected, rtol=1e-6)


def test_the_skewness_correction_undoes_halls_transformation() -> None:
    """T + g/3 T^2 + g^2/27 T^3 + g/6n of T = t / sqrt(n) gives the t quantile back at both ends."""
    values = np.random.default_rng(0).exponential(size=17)
    estimate, low, high = mean_interval(values)
    g = stats.skew(values, bias=False)
    for end, side in ((low, 1), (high, -1)):
        t = (estimate - end) / values.std(ddof=1)
        transformed = t + g / 3 * t**2 + g**2 / 27 * t**3 + g / (6 * 17)
        assert_allclose(transformed * np.sqrt(17), side * stats.t.ppf(0.975, 16), rtol=1e-9)
    # A long upper tail may hide a larger mean: the interval reaches further up.
    assert high - estimate > estimate - low


def test_undefined_units_are_left_out() -> None:
    values = np.random.default_rng(0).normal(size=17)
    assert_allclose(mean_interval(np.insert(values, [3, 9], np.nan)), mean_interval(values))


@pytest.mark.parametrize(("values", "estimate"), [([], np.nan), ([np.nan], np.nan), ([2.0], 2.0)])
def test_fewer_than_two_units_have_no_interval(values: list[float], estimate: float) -> None:
    assert_allclose(mean_interval(np.array(values)), [estimate, np.nan, np.nan])


def test_equal_units_have_an_interval_of_no_width() -> None:
    assert_allclose(mean_interval(np.full(5, 0.3)), [0.3, 0.3, 0.3])


def test_ratio_of_sums_by_hand() -> None:
    """Tops 1, 3, bottoms 2, 2: ratio 1; residuals (1 - 2)/2, (3 - 2)/2 = -.5, .5."""
    # Their sd is sqrt(.5), so the standard error is .5; t of 1 degree is 12.7062.
    expected = [1, 1 - 0.5 * 12.7062, 1 + 0.5 * 12.7062]
    assert_allclose(ratio_interval(np.array([1.0, 3]), np.array([2.0, 2])), expected, rtol=1e-5)


def test_a_ratio_to_a_constant_is_a_mean() -> None:
    values = np.random.default_rng(1).normal(size=9)
    scaled = mean_interval(values / 4)
    assert_allclose(ratio_interval(values, np.full(9, 4.0)), scaled)


def test_a_ratio_to_nothing_is_undefined() -> None:
    assert np.isnan(ratio_interval(np.array([1.0, 2]), np.zeros(2))).all()
    assert np.isnan(ratio_interval(np.full(2, np.nan), np.ones(2))).all()


def test_a_share_has_the_exact_interval() -> None:
    """5 of 5: the low end is .025^(1/5) = .478176."""
    assert_allclose(proportion_interval(5, 5), [1.0, 0.478176, 1.0], atol=1e-6)
    assert_allclose(proportion_interval(0, 5), [0.0, 0.0, 1 - 0.478176], atol=1e-6)
    low, high = proportion_confint(188, 200, method="beta")
    assert_allclose(proportion_interval(188, 200), [0.94, low, high])
    assert np.isnan(proportion_interval(0, 0)).all()


def test_three_units_cannot_reach_a_p_below_an_eighth() -> None:
    assert smallest_flip_p(3) == 1 / 8


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Skewed units (exponential, mean 1; gamma, mean 2), 12 a study, 2,000 studies.

    Nominal .95 (plain t holds .89 here); at least .91 and at most .97.
    """
    rng = np.random.default_rng(2)
    tops, bottoms = rng.exponential(size=(2000, 12)), rng.gamma(8, 1 / 4, size=(2000, 12))
    means = [mean_interval(study) for study in tops]
    ratios = [ratio_interval(*study) for study in zip(tops, bottoms, strict=True)]
    for intervals, truth in ((means, 1.0), (ratios, 0.5)):
        covered = np.mean([one.low <= truth <= one.high for one in intervals])
        assert 0.91 < covered < 0.97
