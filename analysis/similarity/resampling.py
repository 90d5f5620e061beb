"""Intervals over demonstration sets and queries, and of matched minus mismatched."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.inference import UNDEFINED, Interval, smallest_flip_p
from analysis.similarity.records import Floats

RESAMPLES = 2000
LEVELS = (2.5, 97.5)


class Paired(NamedTuple):
    """Matched, mismatched and their difference, with the one-sided p that it is not above 0.

    sets, queries: what was resampled. undefined: share of the (set, query, layer) values that are
    undefined and left out of the matched mean.
    """

    matched: Interval
    mismatched: Interval
    difference: Interval
    p: float
    sets: int
    queries: int
    undefined: float


class Resamples(NamedTuple):
    """How often each set (resample, set) and each query (resample, query) is drawn."""

    sets: Floats
    queries: Floats


def draw_resamples(sets: int, queries: int, *, rng: np.random.Generator) -> Resamples:
    """Sets and queries drawn with replacement, each by itself; a single set stays.

    Drawn once, they serve every measure of the same sets and queries.
    """
    of_sets = weights(sets, rng) if sets > 1 else np.ones((RESAMPLES, 1))
    return Resamples(of_sets, weights(queries, rng))


Source = np.random.Generator | Resamples


def two_way_interval(values: Floats, *, rng: Source) -> Interval:
    """The mean of values (set, query) with a percentile interval; sets and queries are resampled.

    Both are drawn with replacement at once (the pigeonhole bootstrap, Owen 2007, Annals of Applied
    Statistics 1). With one set only queries are, and the interval says nothing of other sets.
    Undefined values are left out; undefined where none is left, or with fewer than 2 queries.
    """
    known = np.isfinite(values)
    if not known.any():
        return UNDEFINED
    estimate = float(values[known].mean())
    if values.shape[1] < 2:
        return Interval(estimate, np.nan, np.nan)
    low, high = np.nanpercentile(resampled_means(values, rng=rng), LEVELS)
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))


def resampled_means(values: Floats, *, rng: Source) -> Floats:
    """Means over resampled sets and queries, (`RESAMPLES`,); NaN where a resample has no value."""
    known = np.isfinite(values)
    return resampled_ratios(np.where(known, values, 0.0), known.astype(np.float64), rng=rng)


def resampled_ratios(numerators: Floats, denominators: Floats, *, rng: Source) -> Floats:
    """Sums of numerators over sums of denominators, both (set, query), (`RESAMPLES`,).

    NaN where a resample's denominator is 0.
    """
    drawn = rng if isinstance(rng, Resamples) else draw_resamples(*numerators.shape, rng=rng)
    total, count = (
        ((drawn.sets @ part) * drawn.queries).sum(axis=1) for part in (numerators, denominators)
    )
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


def two_way_ratio(numerators: Floats, denominators: Floats, *, rng: Source) -> Interval:
    """Sum of numerators over sum of denominators with a percentile interval; see
    `two_way_interval`. Undefined where the denominators are 0."""
    if not denominators.sum() > 0:
        return UNDEFINED
    estimate = float(numerators.sum() / denominators.sum())
    draws = resampled_ratios(numerators, denominators, rng=rng)
    low, high = np.nanpercentile(draws, LEVELS)
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))


def weights(size: int, rng: np.random.Generator) -> Floats:
    """How often each unit stands in each resample, (`RESAMPLES`, size)."""
    drawn = rng.multinomial(size, np.full(size, 1 / size), size=RESAMPLES)
    return np.asarray(drawn, dtype=np.float64)


def paired(matched: Floats, mismatched: Floats, *, rng: Source) -> Paired:
    """Matched minus mismatched, both (set, query, layer), layers averaged first.

    A layer that is undefined on either side is left out of the difference on both. p is never
    below what flipping the signs of whole queries could reach, however few they are.
    """
    first, second = over_layers(matched), over_layers(mismatched)
    change = over_layers(np.asarray(matched - mismatched))
    difference = two_way_interval(change, rng=rng)
    p = float("nan")
    if np.isfinite(difference.low):
        draws = resampled_means(change, rng=rng)
        drawn = draws[np.isfinite(draws)]
        p = float((1 + (drawn <= 0).sum()) / (1 + len(drawn)))
        p = max(p, smallest_flip_p(int(np.isfinite(change).any(axis=0).sum())))
    return Paired(
        two_way_interval(first, rng=rng),
        two_way_interval(second, rng=rng),
        difference,
        p,
        sets=matched.shape[0],
        queries=matched.shape[1],
        undefined=float(1 - np.isfinite(matched).mean()) if matched.size else float("nan"),
    )


def over_layers(values: Floats) -> Floats:
    """Mean over the layers (last axis) that are defined; NaN where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected by Holm over those that are defined; undefined ones stay so."""
    given = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(given))
    order = known[np.argsort(given[known], kind="stable")]
    corrected = given.copy()
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, float(given[place]) * (len(order) - rank)))
        corrected[place] = largest
    return [float(p) for p in corrected]
