"""Effects of the best row, estimated on the half of the contexts that did not choose it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bootstrap import Intervals, ratio_intervals
from analysis.design import Floats
from analysis.flips import t_statistic
from analysis.folds import (
    Comparison,
    Folded,
    Indices,
    compare,
    folded,
    log_ratio,
    unique_over_explained,
)
from analysis.moments import Moments
from analysis.reproducible import Shared
from analysis.spike import LEAST_UNIQUE


class CrossEstimate(NamedTuple):
    """Both halves together, as if they were one row.

    rows: the tested rows that the halves chose; moments and shared: of the row that the other
    half chose, in each context; unique_over_explained and unique_of_variance: one interval.
    """

    rows: tuple[int, int]
    moments: Moments
    shared: Shared | None
    unique_over_explained: Intervals
    unique_of_variance: Intervals


def cross_estimate(
    data: Folded,
    compared: Comparison,
    shared: Shared | None,
    baseline: Indices,
    column: int,
    counts: Floats,
) -> CrossEstimate | None:
    """Let each half of the folds choose its best row, and measure that row on the other half.

    A half prefers rows that meet the rule "contains" there, p aside: with T alone it would choose
    rows in which the hypothesis is sure and tiny. compared: the held-out errors of all rows; a
    context's error comes from fits without its fold, so it did not choose its row either way.
    None where a half has fewer than two folds, or no row is tested.
    """
    moments = data.moments
    if data.folds < 4 or moments.total.shape[1] == 0:
        return None
    chosen = [_choose(data, baseline, column, parity) for parity in (0, 1)]
    picked = np.where(data.groups % 2 == 0, chosen[1], chosen[0])
    without, with_column, total = (
        np.take_along_axis(part, picked[:, None], axis=1) for part in compared[:3]
    )
    mixed = moments._replace(
        cross=np.take_along_axis(moments.cross, picked[:, None, None], axis=2), total=total
    )
    gained = without - with_column
    return CrossEstimate(
        rows=(chosen[0], chosen[1]),
        moments=mixed,
        shared=_mixed_shared(shared, picked),
        unique_over_explained=ratio_intervals(gained, total - with_column, counts),
        unique_of_variance=ratio_intervals(gained, total, counts),
    )


def best_row(t: Floats, *preferred: NDArray[np.bool_]) -> int:
    """The row with the largest t among those of the first preference that any row meets."""
    for rows in preferred:
        if rows.any():
            return int(np.where(rows, t, -np.inf).argmax())
    return int(t.argmax())


def _choose(data: Folded, baseline: Indices, column: int, parity: int) -> int:
    inside = data.groups % 2 == parity
    gram, cross, total = (part[inside] for part in data.moments[:3])
    half = Moments(gram, cross, total, data.moments.cells)
    found = compare(folded(half, data.groups[inside] // 2), baseline, column)
    unique = unique_over_explained(*(part.sum(axis=0) for part in found[:3]))
    sizable = (found.coefficient > 0).all(axis=0) & (unique >= LEAST_UNIQUE)
    return best_row(t_statistic(log_ratio(found)), sizable)


def _mixed_shared(shared: Shared | None, picked: Indices) -> Shared | None:
    if shared is None:
        return None
    chosen = picked[shared.valid]
    return shared._replace(
        cross=np.take_along_axis(shared.cross, chosen[:, None, None], axis=2),
        covariance=np.take_along_axis(shared.covariance, chosen[:, None], axis=1),
        total=np.take_along_axis(shared.total, chosen[:, None], axis=1),
    )
