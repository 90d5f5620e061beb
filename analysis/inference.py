"""Intervals and resampling; the resampled unit is always named by the caller."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from analysis.design import Floats

ALPHA = 0.05


class Interval(NamedTuple):
    """An estimate with its two-sided 95 % interval; NaN where it is undefined."""

    estimate: float
    low: float
    high: float


UNDEFINED = Interval(math.nan, math.nan, math.nan)


def mean_interval(values: Floats) -> Interval:
    """The mean of one number a unit with its interval (see `around`); NaN numbers are left out."""
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return UNDEFINED
    return around(float(known.mean()), known)


def ratio_interval(numerators: Floats, denominators: Floats, *, comparisons: int = 1) -> Interval:
    """Mean numerator over mean denominator, its interval (see `around`) by linearisation.

    One numerator and one denominator a unit; a unit with a NaN in either is left out. NaN where
    the mean denominator is not above 0.
    """
    known = np.isfinite(numerators) & np.isfinite(denominators)
    top, bottom = numerators[known], denominators[known]
    if len(top) == 0 or bottom.mean() <= 0:
        return UNDEFINED
    ratio = float(top.mean() / bottom.mean())
    return around(ratio, (top - ratio * bottom) / bottom.mean(), comparisons=comparisons)


def around(estimate: float, spread: Floats, *, comparisons: int = 1) -> Interval:
    """The estimate with the interval of a mean of numbers that vary like `spread`, one a unit.

    Student's t corrected for skewness by Hall's cubic transformation (Hall 1992, J. R. Statist.
    Soc. B 54; the plain t of two units). NaN with fewer than two units, of no width where all are
    equal. comparisons: how many intervals hold together at 95 % (Bonferroni).
    """
    units = len(spread)
    if units < 2:
        return Interval(estimate, math.nan, math.nan)
    deviations = spread - spread.mean()
    sd = math.sqrt(float((deviations**2).sum()) / (units - 1))
    if sd == 0:
        return Interval(estimate, estimate, estimate)
    skewness = sample_skewness(deviations)
    quantile = float(stats.t.ppf(1 - ALPHA / 2 / comparisons, units - 1))
    low, high = (untransformed(side * quantile, skewness, units) for side in (1, -1))
    error = sd / math.sqrt(units)
    return Interval(estimate, estimate - error * low, estimate - error * high)


def sample_skewness(deviations: Floats) -> float:
    """Bias-adjusted skewness of deviations from their mean; 0 of two units."""
    units = len(deviations)
    if units < 3:
        return 0.0
    crude = float((deviations**3).mean()) / math.pow(float((deviations**2).mean()), 1.5)
    return crude * math.sqrt(units * (units - 1)) / (units - 2)


def untransformed(quantile: float, skewness: float, units: int) -> float:
    """The t statistic whose skewness-removing transform is `quantile` (Hall 1992, T_2)."""
    a = skewness / 3
    if abs(a) < 1e-9:
        return quantile
    root = math.sqrt(units)
    return root / a * (math.cbrt(1 + 3 * a * (quantile / root - skewness / (6 * units))) - 1)


def proportion_interval(successes: int, trials: int) -> Interval:
    """A share of independent trials with its exact (Clopper-Pearson) interval; NaN of 0 trials."""
    if trials == 0:
        return UNDEFINED
    exact = stats.binomtest(successes, trials).proportion_ci(1 - ALPHA, method="exact")
    return Interval(successes / trials, float(exact.low), float(exact.high))


def smallest_flip_p(units: int) -> float:
    """The smallest one-sided p that flipping the signs of whole units can reach, 2^-units."""
    return 2.0**-units
