"""Whether demonstrations near the query act more (KATE, 2101.06804): a slope with its null."""

from typing import NamedTuple

import numpy as np

from analysis.inference import Interval
from analysis.similarity.records import Floats
from analysis.similarity.resampling import LEVELS

DRAWS = 500
_NUMBERS_AT_ONCE = 2**21


class NearEffect(NamedTuple):
    """Nats of log p(gold) for one unit of similarity; `null`: under other queries' similarities."""

    effect: Interval
    null: Interval


class NearDraws(NamedTuple):
    """The slope, its draws over resampled queries, and those under other queries' similarities."""

    slope: float
    resampled: Floats
    nulls: Floats


def near_effect(
    effects: Floats, similarity: Floats, matches: Floats, *, rng: np.random.Generator
) -> NearEffect:
    """Slope of each demonstration's effect on its similarity; see `near_draws`.

    The interval is of percentiles; the null's is that of the slope under other queries'
    similarities.
    """
    found = near_draws(effects, similarity, matches, rng=rng)
    return NearEffect(
        Interval(found.slope, *_percentiles(found.resampled)),
        Interval(float(np.mean(found.nulls)), *_percentiles(found.nulls)),
    )


def near_draws(
    effects: Floats, similarity: Floats, matches: Floats, *, rng: np.random.Generator
) -> NearDraws:
    """Slopes of each demonstration's effect on its similarity, all (query, demonstration).

    Every query and every demonstration has a level of its own, so that slot and length, which a
    demonstration has for all queries alike, are held fixed; `matches` (1 where the label is the
    query's) is a covariate. Whole queries are resampled; under the null what covariates leave of
    similarity is dealt out among queries, in any order: never to give a query its own would shift
    the null below 0, and to deal out similarity itself would widen it by label match. Refuses less
    than 3 queries or 2 demonstrations; undefined where similarity does not vary beyond those
    levels.
    """
    queries, shown = effects.shape
    if queries < 3 or shown < 2:
        raise ValueError(
            f"needed 3 queries and 2 demonstrations or more, came {queries} and {shown}"
        )
    some = rng.integers(0, queries, (DRAWS, queries))
    others = rng.permuted(np.tile(np.arange(queries), (DRAWS, 1)), axis=1)
    left = residual(levelled(similarity), levelled(matches)).reshape(similarity.shape)
    resampled, nulls = [], []
    at_once = max(1, _NUMBERS_AT_ONCE // effects.size)
    for start in range(0, DRAWS, at_once):
        few, other = some[start : start + at_once], others[start : start + at_once]
        resampled.append(slope(effects[few], similarity[few], matches[few]))
        nulls.append(slope(effects, left[other], matches))
    own = float(slope(effects, similarity, matches))
    return NearDraws(own, np.concatenate(resampled), np.concatenate(nulls))


def slope(effects: Floats, similarity: Floats, matches: Floats) -> Floats:
    """Least squares slope on similarity beside matches, levels of rows and columns taken out.

    All (..., query, demonstration), one slope for each of what stands before.
    """
    own = residual(levelled(similarity), levelled(matches))
    spread = (own * own).sum(axis=-1)
    along = (own * levelled(effects)).sum(axis=-1)
    return np.where(spread > 1e-12, along / np.where(spread > 1e-12, spread, 1.0), np.nan)


def residual(values: Floats, covariate: Floats) -> Floats:
    """What least squares on the covariate leaves of values, both centred, along the last axis."""
    size = (covariate * covariate).sum(axis=-1, keepdims=True)
    along = (values * covariate).sum(axis=-1, keepdims=True)
    part = np.where(size > 1e-12, along / np.where(size > 1e-12, size, 1.0), 0.0)
    return np.asarray(values - covariate * part)


def levelled(values: Floats) -> Floats:
    """Values (..., query, demonstration) less the level of each row and column, as a line."""
    rows, columns = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    left = values - rows - columns + values.mean(axis=(-2, -1), keepdims=True)
    return np.asarray(left.reshape(*left.shape[:-2], -1))


def _percentiles(draws: Floats) -> tuple[float, float]:
    known = draws[np.isfinite(draws)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, LEVELS)
    return float(low), float(high)
