"""Intervals and resampling; the resampled unit is always named by the caller."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from analysis.design import Floats

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with its two-sided 95 % interval; NaN where it is undefined."""

    estimate: float
    low: float
    high: float


UNDEFINED = Interval(math.nan, math.nan, math.nan)


def mean_interval(values: Floats) -> Interval:
    """The mean of one number a unit with Student's t interval; NaN numbers are left out.

    The interval is NaN with fewer than two units.
    """
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return UNDEFINED
    return around(float(known.mean()), known)


def ratio_interval(numerators: Floats, denominators: Floats) -> Interval:
    """Mean numerator over mean denominator with a t interval of its linearisation over units.

    One numerator and one denominator a unit; a unit with a NaN in either is left out. NaN where
    the mean denominator is not above 0.
    """
    known = np.isfinite(numerators) & np.isfinite(denominators)
    top, bottom = numerators[known], denominators[known]
    if len(top) == 0 or bottom.mean() <= 0:
        return UNDEFINED
    ratio = float(top.mean() / bottom.mean())
    return around(ratio, (top - ratio * bottom) / bottom.mean())


def around(estimate: float, spread: Floats) -> Interval:
    """The estimate with the t interval of a mean of numbers that vary like `spread`."""
    if len(spread) < 2:
        return Interval(estimate, math.nan, math.nan)
    error = float(spread.std(ddof=1)) / math.sqrt(len(spread))
    half = float(stats.t.ppf(0.5 + LEVEL / 2, len(spread) - 1)) * error
    return Interval(estimate, estimate - half, estimate + half)


def proportion_interval(successes: int, trials: int) -> Interval:
    """A share of independent trials with its exact (Clopper-Pearson) interval; NaN of 0 trials."""
    if trials == 0:
        return UNDEFINED
    exact = stats.binomtest(successes, trials).proportion_ci(LEVEL, method="exact")
    return Interval(successes / trials, float(exact.low), float(exact.high))


def smallest_flip_p(units: int) -> float:
    """The smallest one-sided p that flipping the signs of whole units can reach, 2^-units."""
    return 2.0**-units
