"""An interval and p that hold with few demonstration sets, where a bootstrap claims too often."""

from typing import NamedTuple

import numpy as np

from analysis.claims.crossed_mean import mean_over_both
from analysis.inference import ALPHA, Interval
from analysis.similarity.records import Floats

LEAST_QUERIES = 2


class Wider(NamedTuple):
    """An interval, and the one-sided p that its estimate is not above 0."""

    interval: Interval
    p: float


def of_few_sets(given: Interval, p: float, change: Floats) -> Wider:
    """The given interval and p, or those of the crossed design of sets and queries if wider.

    change: (set, query), what the estimate is the mean of; sets without a value, and queries that
    then lack one in any set, are left out of the crossed design. As given
    where fewer than 2 queries are left.
    """
    rows = change[np.isfinite(change).any(axis=1)]
    whole = rows[:, np.isfinite(rows).all(axis=0)]
    if whole.shape[0] == 0 or whole.shape[1] < LEAST_QUERIES:
        return Wider(given, p)
    crossed = mean_over_both(whole)
    low, high = crossed.interval(1 - ALPHA)
    wider = Interval(given.estimate, min(given.low, low), max(given.high, high))
    return Wider(wider, max(p, crossed.above(0.0)))
