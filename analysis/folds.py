"""Held-out comparison of two column sets over folds of contexts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.design import Floats
from analysis.moments import Moments

RIDGE = 1e-6
FLOOR = 1e-12

Indices = NDArray[np.int64]


class Folded(NamedTuple):
    """Moments with a fold for each context, and their sums within each fold.

    groups: (C,); gram: (F, K, K); cross: (F, K, R).
    """

    moments: Moments
    groups: Indices
    gram: Floats
    cross: Floats

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.gram)


class Comparison(NamedTuple):
    """Held-out errors of a baseline M0 and of M1 = M0 + one column, per context.

    without and with_column: (C, R), sums of squared errors; total: (C, R), sums of squares;
    coefficient: (F, R), the added column's coefficient in the fit that left fold f out.
    """

    without: Floats
    with_column: Floats
    total: Floats
    coefficient: Floats


def assign_folds(contexts: int, folds: int, *, rng: np.random.Generator) -> Indices:
    """A fold for each context, sizes differing by at most one."""
    return rng.permutation(np.arange(contexts) % min(folds, contexts)).astype(np.int64)


def folded(moments: Moments, groups: Indices) -> Folded:
    """Sum the products of each fold once, for all fits that leave it out."""
    folds = range(int(groups.max()) + 1)
    return Folded(
        moments,
        groups,
        np.stack([moments.gram[groups == fold].sum(axis=0) for fold in folds]),
        np.stack([moments.cross[groups == fold].sum(axis=0) for fold in folds]),
    )


def ridge_solution(gram: Floats, cross: Floats, observations: int) -> Floats:
    """Coefficients (K, R) of unit-sd columns, ridge 1e-6 of a column's own sum of squares."""
    penalty = RIDGE * max(observations, 1)
    return np.asarray(np.linalg.solve(gram + penalty * np.eye(len(gram)), cross))


def fit_without(data: Folded, columns: Indices, fold: int) -> Floats:
    """Coefficients (K, R) of the columns, fitted to all folds but one."""
    gram = data.gram.sum(axis=0) - data.gram[fold]
    cross = data.cross[:, columns].sum(axis=0) - data.cross[fold][columns]
    contexts = int((data.groups != fold).sum())
    return ridge_solution(gram[np.ix_(columns, columns)], cross, contexts * data.moments.cells)


def squared_error(
    moments: Moments, columns: Indices, contexts: Indices | NDArray[np.bool_], fit: Floats
) -> Floats:
    """Error of the fits (K, R) in each of the contexts, (contexts, R), from the products alone."""
    cross = moments.cross[contexts][:, columns]
    gram = moments.gram[contexts][:, columns][:, :, columns]
    total = moments.total[contexts]
    error = total - np.einsum("kr,ckr->cr", fit, 2.0 * cross - gram @ fit)
    return np.asarray(np.maximum(error, FLOOR * total))


def held_out_error(data: Folded, columns: Sequence[int] | Indices) -> Floats:
    """Squared error (C, R) of the columns, each context predicted by the folds without it."""
    picked: Indices = np.asarray(columns, dtype=np.int64)
    error = np.empty_like(data.moments.total)
    for fold in range(data.folds):
        inside = data.groups == fold
        fit = fit_without(data, picked, fold)
        error[inside] = squared_error(data.moments, picked, inside, fit)
    return error


def compare(data: Folded, baseline: Indices, added: int) -> Comparison:
    """Held-out errors without and with one more column."""
    full = np.append(baseline, added)
    with_column = np.empty_like(data.moments.total)
    coefficient = np.empty((data.folds, data.moments.total.shape[1]))
    for fold in range(data.folds):
        inside = data.groups == fold
        fit = fit_without(data, full, fold)
        coefficient[fold] = fit[-1]
        with_column[inside] = squared_error(data.moments, full, inside, fit)
    without = held_out_error(data, baseline)
    return Comparison(without, with_column, data.moments.total, coefficient)


def log_ratio(comparison: Comparison) -> Floats:
    """G (C, R) = log of error without over error with the column, held out; > 0 where it helps."""
    return np.asarray(np.log(comparison.without) - np.log(comparison.with_column))


def unique_over_explained(without: Floats, with_column: Floats, total: Floats) -> Floats:
    """What only the column explains, over all that is explained; NaN if nothing is explained."""
    explained = total - with_column
    usable = explained > 0
    return np.where(usable, (without - with_column) / np.where(usable, explained, 1.0), np.nan)
