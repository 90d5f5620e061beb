"""Effects of the best row, estimated on the half of the contexts that did not choose it."""

from typing import NamedTuple

import numpy as np

from analysis.bootstrap import Intervals, ratio_intervals
from analysis.flips import t_statistic
from analysis.folds import (
    Folded,
    Indices,
    compare,
    folded,
    log_ratio,
    ridge_solution,
    squared_error,
)
from analysis.moments import Moments
from analysis.reproducible import Shared


class Half(NamedTuple):
    """What one half of the contexts chose, and how it does on the other half.

    row: position among the tested rows; contexts: the other half, indices;
    without, with_column, total: errors and sum of squares there, one for each context.
    """

    row: int
    contexts: Indices
    without: np.ndarray
    with_column: np.ndarray
    total: np.ndarray


class CrossEstimate(NamedTuple):
    """Both halves together, as if they were one row.

    rows: the tested rows that the halves chose; moments and shared: of the row that the other
    half chose, in each context; unique_over_explained: one interval.
    """

    rows: tuple[int, int]
    moments: Moments
    shared: Shared | None
    unique_over_explained: Intervals


def cross_estimate(
    data: Folded,
    shared: Shared | None,
    baseline: Indices,
    column: int,
    counts: np.ndarray,
) -> CrossEstimate | None:
    """Let each half of the folds choose its best row, and measure that row on the other half.

    None where a half has fewer than two folds, or no row is tested.
    """
    moments, groups = data.moments, data.groups
    if data.folds < 4 or moments.total.shape[1] == 0:
        return None
    halves = [_choose(data, baseline, column, parity) for parity in (0, 1)]
    picked = np.zeros(len(groups), dtype=np.int64)
    errors = np.empty((3, len(groups), 1))
    for half in halves:
        picked[half.contexts] = half.row
        errors[:, half.contexts, 0] = half.without, half.with_column, half.total
    without, with_column, total = errors
    mixed = moments._replace(
        cross=np.take_along_axis(moments.cross, picked[:, None, None], axis=2),
        total=np.take_along_axis(moments.total, picked[:, None], axis=1),
    )
    unique = ratio_intervals(without - with_column, total - with_column, counts)
    return CrossEstimate(
        (halves[0].row, halves[1].row), mixed, _mixed_shared(shared, picked), unique
    )


def _choose(data: Folded, baseline: Indices, column: int, parity: int) -> Half:
    moments, groups = data.moments, data.groups
    inside = groups % 2 == parity
    own = Moments(moments.gram[inside], moments.cross[inside], moments.total[inside], moments.cells)
    halved = folded(own, groups[inside] // 2)
    row = int(t_statistic(log_ratio(compare(halved, baseline, column))).argmax())
    one = moments._replace(cross=moments.cross[:, :, [row]], total=moments.total[:, [row]])
    gram, cross = own.gram.sum(axis=0), own.cross.sum(axis=0)[:, [row]]
    others = np.flatnonzero(~inside)
    errors = []
    for picked in (baseline, np.append(baseline, column)):
        observations = int(inside.sum()) * moments.cells
        fit = ridge_solution(gram[np.ix_(picked, picked)], cross[picked], observations)
        errors.append(squared_error(one, picked, others, fit)[:, 0])
    return Half(row, others, errors[0], errors[1], one.total[others, 0])


def _mixed_shared(shared: Shared | None, picked: Indices) -> Shared | None:
    if shared is None:
        return None
    chosen = picked[shared.valid]
    return shared._replace(
        cross=np.take_along_axis(shared.cross, chosen[:, None, None], axis=2),
        covariance=np.take_along_axis(shared.covariance, chosen[:, None], axis=1),
        total=np.take_along_axis(shared.total, chosen[:, None], axis=1),
    )
