"""Intervals over demonstration sets and queries, and of matched minus mismatched."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.bootstrap import Intervals
from analysis.inference import UNDEFINED, Interval, smallest_flip_p
from analysis.similarity.records import Floats

RESAMPLES = 2000
LAYER_RESAMPLES = 1000
"""Of the same resamples, how many serve the interval of every layer."""
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
    """How often each set (resample, set) and each query (resample, query) is drawn.

    A resample draws as many of each as there are; a single set is drawn once.
    """

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
    return two_way_intervals(values[..., None], rng=rng).at(0)


def two_way_intervals(values: Floats, *, rng: Source) -> Intervals:
    """`two_way_interval` of every layer of values (set, query, layer) at once, arrays (layer,)."""
    return _intervals(values, resampled_means(values, rng=rng))


def first_resamples(drawn: Resamples) -> Resamples:
    """The first `LAYER_RESAMPLES` of them."""
    return Resamples(drawn.sets[:LAYER_RESAMPLES], drawn.queries[:LAYER_RESAMPLES])


def _intervals(values: Floats, draws: Floats) -> Intervals:
    """Means of values (set, query, layer) with percentiles of draws (resample, layer)."""
    known = np.isfinite(values)
    count = known.sum(axis=(0, 1))
    total = np.where(known, values, 0.0).sum(axis=(0, 1))
    estimate = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    if values.shape[1] < 2:
        return Intervals(estimate, *np.full((2, *estimate.shape), np.nan))
    low, high = _percentiles(draws)
    return Intervals(estimate, np.minimum(low, estimate), np.maximum(high, estimate))


def _percentiles(draws: Floats) -> Floats:
    """`LEVELS` of the draws that are defined, (2, layer); NaN where none is."""
    found = np.full((len(LEVELS), draws.shape[1]), np.nan)
    known = np.isfinite(draws)
    whole = known.all(axis=0)
    found[:, whole] = np.percentile(draws[:, whole], LEVELS, axis=0)
    for layer in np.flatnonzero(known.any(axis=0) & ~whole):
        found[:, layer] = np.percentile(draws[known[:, layer], layer], LEVELS)
    return found


def resampled_means(values: Floats, *, rng: Source) -> Floats:
    """Means of values (set, query, layer) over resampled sets and queries, (`RESAMPLES`, layer).

    NaN where a resample has no value.
    """
    known, drawn = np.isfinite(values), drawn_for(values, rng)
    sums = resampled_sums(np.where(known, values, 0.0), rng=drawn)
    counts = np.full_like(sums, values.shape[0] * values.shape[1])
    gaps = ~known.all(axis=(0, 1))
    counts[:, gaps] = resampled_sums(known[:, :, gaps].astype(np.float64), rng=drawn)
    return _ratios(sums, counts)


def resampled_ratios(numerators: Floats, denominators: Floats, *, rng: Source) -> Floats:
    """Sums of numerators over sums of denominators, both (set, query, ...), (`RESAMPLES`, ...).

    NaN where a resample's denominator is 0.
    """
    drawn = drawn_for(numerators, rng)
    return _ratios(*(resampled_sums(part, rng=drawn) for part in (numerators, denominators)))


def _ratios(total: Floats, count: Floats) -> Floats:
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


def resampled_sums(part: Floats, *, rng: Source) -> Floats:
    """Sums of part (set, query, ...) over resampled sets and queries, (`RESAMPLES`, ...)."""
    drawn, (sets, queries, *rest) = drawn_for(part, rng), part.shape
    of_query = drawn.queries @ np.moveaxis(part, 1, 0).reshape(queries, math.prod((sets, *rest)))
    if sets == 1:
        return of_query.reshape(len(of_query), *rest)
    of_set = of_query.reshape(len(of_query), sets, math.prod(rest))
    return np.asarray(drawn.sets[:, None, :] @ of_set).reshape(len(of_set), *rest)


def drawn_for(values: Floats, rng: Source) -> Resamples:
    """Resamples of the sets and queries of values (set, query, ...); given ones as they are."""
    if isinstance(rng, Resamples):
        return rng
    return draw_resamples(values.shape[0], values.shape[1], rng=rng)


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
    return paired_each(matched, {"": mismatched}, rng=rng)[""]


def paired_each(matched: Floats, others: Mapping[str, Floats], *, rng: Source) -> dict[str, Paired]:
    """`paired` against each of others by name, all (set, query, layer)."""
    sides = [matched, *(side for one in others.values() for side in (one, matched - one))]
    values = np.stack([over_layers(side) for side in sides], axis=-1)
    draws = resampled_means(values, rng=rng)
    found = _intervals(values, draws)
    undefined = float(1 - np.isfinite(matched).mean()) if matched.size else float("nan")
    return {
        name: Paired(
            found.at(0),
            found.at(place),
            found.at(place + 1),
            p_above_zero(values[..., place + 1], draws[:, place + 1]),
            sets=matched.shape[0],
            queries=matched.shape[1],
            undefined=undefined,
        )
        for place, name in zip(range(1, len(sides), 2), others, strict=True)
    }


def p_above_zero(values: Floats, draws: Floats) -> float:
    """One-sided p that the mean of values (set, query) is not above 0, from its resamples.

    Undefined where no value is, or with fewer than 2 queries.
    """
    if values.shape[1] < 2 or not np.isfinite(values).any():
        return float("nan")
    drawn = draws[np.isfinite(draws)]
    p = float((1 + (drawn <= 0).sum()) / (1 + len(drawn)))
    return max(p, smallest_flip_p(int(np.isfinite(values).any(axis=0).sum())))


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
