"""Whether demonstrations near the query act more (KATE, 2101.06804): a slope with its null."""

from typing import NamedTuple

import numpy as np

from analysis.inference import Interval
from analysis.similarity.records import Floats
from analysis.similarity.resampling import LEVELS

DRAWS = 500


class NearEffect(NamedTuple):
    """Nats of log p(gold) for one unit of similarity; `null`: under other queries' similarities."""

    effect: Interval
    null: Interval


def near_effect(
    effects: Floats, similarity: Floats, matches: Floats, *, rng: np.random.Generator
) -> NearEffect:
    """Slope of each demonstration's effect on its similarity, all (query, demonstration).

    Every query and every demonstration has a level of its own, so that slot and length, which a
    demonstration has for all queries alike, are held fixed; `matches` (1 where the label is the
    query's) is a covariate. The interval resamples whole queries. The null's interval is that of
    the slope with each query given a random other query's similarities. Refuses less than
    3 queries or 2 demonstrations; undefined where similarity does not vary beyond those levels.
    """
    queries, shown = effects.shape
    if queries < 3 or shown < 2:
        raise ValueError(
            f"needed 3 queries and 2 demonstrations or more, came {queries} and {shown}"
        )
    estimate = slope(effects, similarity, matches)
    draws, nulls = [], []
    for _ in range(DRAWS):
        some = rng.integers(0, queries, queries)
        draws.append(slope(effects[some], similarity[some], matches[some]))
        order = rng.permutation(queries)
        others = np.empty(queries, dtype=np.int64)
        others[order] = np.roll(order, 1)
        nulls.append(slope(effects, similarity[others], matches))
    return NearEffect(
        Interval(estimate, *_percentiles(draws)),
        Interval(float(np.mean(nulls)), *_percentiles(nulls)),
    )


def slope(effects: Floats, similarity: Floats, matches: Floats) -> float:
    """Least squares slope on similarity beside matches, levels of rows and columns taken out."""
    columns = np.stack([_levelled(similarity), _levelled(matches)], axis=1)
    other, own = columns[:, 1], columns[:, 0]
    size = float(other @ other)
    rest = own - other * (float(own @ other) / size if size > 1e-12 else 0.0)
    spread = float(rest @ rest)
    return float(rest @ _levelled(effects)) / spread if spread > 1e-12 else float("nan")


def _levelled(values: Floats) -> Floats:
    rows, columns = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    return np.asarray(values - rows - columns + values.mean()).ravel()


def _percentiles(draws: list[float]) -> tuple[float, float]:
    known = np.asarray(draws)[np.isfinite(draws)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, LEVELS)
    return float(low), float(high)
