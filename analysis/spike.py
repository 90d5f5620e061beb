"""What this design could have found: the gate of a planted row, and the least share that shows."""

from typing import NamedTuple

import numpy as np

from analysis.bootstrap import Intervals, ratio_intervals
from analysis.design import Floats
from analysis.flips import t_statistic
from analysis.folds import (
    FLOOR,
    Folded,
    Indices,
    compare,
    fit_without,
    folded,
    unique_over_explained,
)
from analysis.inference import Interval
from analysis.moments import Moments

SHARES = np.array([0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 55, 70, 80, 90, 95, 99]) / 100
POWER = 0.9
LEAST_ATTAINABLE = 0.2
LEAST_UNIQUE = 0.1


class DesignGate(NamedTuple):
    """What the contexts allow.

    attainable: unique over explained of a planted pure least-squares row; identifies: it is at
    least .2, and at most 1 (above 1 the fit of M0* to so few contexts is worse than none).
    mde: the least share of query-centred variance at which 90 % of the real rows are found when
    the least-squares row is added to them; NaN where no share is enough.
    power: (share, part of the rows found) at each share that was tried; rows: how many rows.
    """

    attainable: Interval
    identifies: bool
    mde: float
    power: tuple[tuple[float, float], ...]
    rows: int


class Products(NamedTuple):
    """Held-out residual products of rows with a planted row, within contexts.

    own: (C, R); crossed: (C, R); planted: (C, 1); coefficient and planted_coefficient: (F, R) and
    (F, 1), of the last column.
    """

    own: Floats
    crossed: Floats
    planted: Floats
    coefficient: Floats
    planted_coefficient: Floats


def as_row(moments: Moments, column: int) -> Moments:
    """The moments of a column taken as the only row."""
    return moments._replace(
        cross=moments.gram[:, :, column][:, :, None],
        total=moments.gram[:, column, column][:, None],
    )


def attainable(data: Folded, baseline: Indices, column: int, counts: Floats) -> Interval:
    """Unique over explained that a planted row without noise reaches."""
    one = compare(folded(as_row(data.moments, column), data.groups), baseline, column)
    found: Intervals = ratio_intervals(
        one.without - one.with_column, one.total - one.with_column, counts
    )
    return found.at(0)


def residual_products(data: Folded, columns: Indices, planted: int) -> Products:
    """Residuals of every row and of the planted row under the same held-out fits.

    The fits are linear in the row, so a row with any amount of the planted one in it needs no
    new fit.
    """
    moments = data.moments
    row = as_row(moments, planted)
    planted_data = folded(row, data.groups)
    own, crossed = np.empty_like(moments.total), np.empty_like(moments.total)
    alone = np.empty_like(row.total)
    last = np.empty((data.folds, moments.total.shape[1])), np.empty((data.folds, 1))
    for fold in range(data.folds):
        inside = data.groups == fold
        fit = fit_without(data, columns, fold)
        planted_fit = fit_without(planted_data, columns, fold)
        gram = moments.gram[inside][:, columns][:, :, columns]
        cross, planted_cross = moments.cross[inside][:, columns], row.cross[inside][:, columns]
        left = gram @ planted_fit
        own[inside] = _product(moments.total[inside], fit, cross, fit, cross, gram @ fit)
        crossed[inside] = _product(
            moments.cross[inside][:, planted], fit, cross, planted_fit, planted_cross, left
        )
        alone[inside] = _product(
            row.total[inside], planted_fit, planted_cross, planted_fit, planted_cross, left
        )
        last[0][fold], last[1][fold] = fit[-1], planted_fit[-1]
    return Products(own, crossed, alone, *last)


def _product(
    products: Floats, fit: Floats, cross: Floats, other: Floats, other_cross: Floats, left: Floats
) -> Floats:
    rows = np.einsum("kr,ckr->cr", np.broadcast_to(other, fit.shape), cross)
    others = np.einsum("kr,ckr->cr", fit, np.broadcast_to(other_cross, cross.shape))
    square = np.einsum("kr,ckr->cr", fit, np.broadcast_to(left, cross.shape))
    return np.asarray(products - rows - others + square)


def found_by_share(
    data: Folded, baseline: Indices, column: int, critical: float
) -> tuple[tuple[float, float], ...]:
    """(share, part of the rows found) when the column's row is added to real rows.

    A row counts as found where all three conditions of "contains" hold; critical: t
    must be above it for a corrected p of .05 in the test of the real rows.
    """
    moments = data.moments
    without = residual_products(data, baseline, column)
    with_column = residual_products(data, np.append(baseline, column), column)
    spread = np.sqrt(moments.gram[:, column, column].sum() / moments.total.sum(axis=0))
    power = []
    for share in SHARES:
        size = np.sqrt(share / (1.0 - share)) / spread
        planted = moments.gram[:, [column], column]
        total = _spiked(moments.total, moments.cross[:, column], planted, size)
        errors = [
            np.maximum(_spiked(one.own, one.crossed, one.planted, size), FLOOR * total)
            for one in (without, with_column)
        ]
        statistic = t_statistic(np.log(errors[0]) - np.log(errors[1]))
        unique = unique_over_explained(*(part.sum(axis=0) for part in (*errors, total)))
        positive = with_column.coefficient + size * with_column.planted_coefficient > 0
        found = (statistic > critical) & positive.all(axis=0) & (unique >= LEAST_UNIQUE)
        power.append((float(share), float(found.mean())))
    return tuple(power)


def _spiked(own: Floats, crossed: Floats, planted: Floats, size: Floats) -> Floats:
    return np.asarray(own + 2.0 * size * crossed + size**2 * planted)


def least_share(power: tuple[tuple[float, float], ...]) -> float:
    """The least share from which on at least 90 % of the rows are found; NaN if there is none."""
    least = np.nan
    for share, found in reversed(power):
        if found < POWER:
            break
        least = share
    return float(least)
