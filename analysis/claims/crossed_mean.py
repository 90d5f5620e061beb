"""The mean of a number a demonstration set and query, both random, with the error of few sets."""

import math
from typing import NamedTuple

from scipy import stats

from analysis.similarity.records import Floats


class MeanOf(NamedTuple):
    """A mean over sets and queries, its standard error, and the degrees of freedom of that."""

    estimate: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """The two-sided interval at a level such as .95, by Student's t."""
        reach = self.error * float(stats.t.ppf((1 + level) / 2, self.freedom))
        return self.estimate - reach, self.estimate + reach

    def above(self, value: float) -> float:
        """One-sided p that the mean is not above `value`."""
        if self.error == 0:
            return float(self.estimate <= value)
        return float(stats.t.sf((self.estimate - value) / self.error, self.freedom))


def mean_over_both(values: Floats) -> MeanOf:
    """Mean of values (set, query), both random, with its standard error.

    The error is that of a crossed design without replication, (MS_sets + MS_queries - MS_rest) /
    (sets x queries) and never less than of the larger by itself, its degrees of freedom by
    Satterthwaite. With one set only queries vary. Refuses fewer than 2 queries.
    """
    sets, queries = values.shape
    if queries < 2:
        raise ValueError(f"needed at least 2 queries, came {queries}")
    estimate = float(values.mean())
    of_queries = sets * float(values.mean(axis=0).var(ddof=1))
    if sets == 1:
        return MeanOf(estimate, math.sqrt(of_queries / queries), queries - 1)
    of_sets = queries * float(values.mean(axis=1).var(ddof=1))
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + estimate
    of_rest = float((rest**2).sum()) / ((sets - 1) * (queries - 1))
    total = of_sets + of_queries - of_rest
    parts = (
        (of_sets, sets - 1),
        (of_queries, queries - 1),
        (of_rest, (sets - 1) * (queries - 1)),
    )
    freedom = total**2 / max(sum(one**2 / df for one, df in parts), 1e-300)
    larger, df = max(parts[:2])
    if total < larger:
        total, freedom = larger, float(df)
    return MeanOf(estimate, math.sqrt(total / (sets * queries)), max(1.0, freedom))
