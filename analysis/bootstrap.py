"""Bootstrap intervals of ratios and fits; whole contexts are resampled."""

from typing import NamedTuple

import numpy as np

from analysis.design import Floats
from analysis.inference import Interval

LEVELS = (2.5, 97.5)


class Intervals(NamedTuple):
    """Estimates with two-sided 95 % intervals, arrays of one shape; NaN where undefined."""

    estimate: Floats
    low: Floats
    high: Floats

    def at(self, *index: int) -> Interval:
        """The interval of one cell."""
        return Interval(*(float(part[index]) for part in self))


def undefined(*shape: int) -> Intervals:
    """Intervals that are NaN throughout."""
    return Intervals(*(np.full(shape, np.nan) for _ in range(3)))


def resampled_counts(contexts: int, resamples: int, *, rng: np.random.Generator) -> Floats:
    """How often each context stands in each resample, (B, C)."""
    drawn = rng.multinomial(contexts, np.full(contexts, 1.0 / contexts), size=resamples)
    return np.asarray(drawn, dtype=np.float64)


def percentile_intervals(estimate: Floats, draws: Floats) -> Intervals:
    """The estimate with percentiles of its resamples (B, ...); NaN if any resample is undefined.

    Where the percentiles leave the estimate out (it sits at the edge of what is possible), the
    interval is widened to it.
    """
    low, high = np.percentile(draws, LEVELS, axis=0)
    known = np.isfinite(estimate) & np.isfinite(low) & np.isfinite(high)
    bounds = (estimate, np.minimum(low, estimate), np.maximum(high, estimate))
    return Intervals(*(np.where(known, part, np.nan) for part in bounds))


def ratio_intervals(numerator: Floats, denominator: Floats, counts: Floats) -> Intervals:
    """Sum of numerators over sum of denominators, both (C, ...).

    NaN where the denominator is not above 0 in the data or in a resample.
    """
    estimate = safe_ratio(numerator.sum(axis=0), denominator.sum(axis=0))
    shape = numerator.shape[1:]
    flat = [part.reshape(len(part), -1) for part in (numerator, denominator)]
    draws = safe_ratio(counts @ flat[0], counts @ flat[1]).reshape(len(counts), *shape)
    return percentile_intervals(estimate, draws)


def safe_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """numerator / denominator, NaN where the denominator is not above 0."""
    usable = denominator > 0
    return np.where(usable, numerator / np.where(usable, denominator, 1.0), np.nan)
