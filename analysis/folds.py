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


def ridge_matrix(gram: Floats, contexts: int, cells: int) -> Floats:
    """Summed products of unit-sd columns plus 1e-6 of a column's own sum of squares."""
    return np.asarray(gram + RIDGE * max(contexts, 1) * cells * np.eye(gram.shape[-1]))


def squared_error(gram: Floats, cross: Floats, total: Floats, coefficients: Floats) -> Floats:
    """Error of row fits (K, R) in each context, (C, R), from the products alone."""
    fitted = np.einsum("kr,ckr->cr", coefficients, cross)
    square = np.einsum("kr,ckr->cr", coefficients, gram @ coefficients)
    return np.asarray(np.maximum(total - 2.0 * fitted + square, FLOOR * total))


def solve(moments: Moments, columns: Indices, chosen: NDArray[np.bool_] | Indices) -> Floats:
    """Ridge coefficients (K, R) of the columns, fitted to the chosen contexts."""
    gram = moments.gram[chosen][:, columns][:, :, columns].sum(axis=0)
    cross = moments.cross[chosen][:, columns].sum(axis=0)
    contexts = moments.gram[chosen].shape[0]
    return np.asarray(np.linalg.solve(ridge_matrix(gram, contexts, moments.cells), cross))


def held_out_error(moments: Moments, columns: Sequence[int] | Indices, folds: Indices) -> Floats:
    """Squared error (C, R) of the columns, each context predicted by the folds without it."""
    picked = np.asarray(columns, dtype=np.int64)
    error = np.empty_like(moments.total)
    for fold in range(folds.max() + 1):
        inside = folds == fold
        coefficients = solve(moments, picked, ~inside)
        error[inside] = squared_error(
            moments.gram[inside][:, picked][:, :, picked],
            moments.cross[inside][:, picked],
            moments.total[inside],
            coefficients,
        )
    return error


def compare(
    moments: Moments, baseline: Sequence[int] | Indices, added: int, folds: Indices
) -> Comparison:
    """Held-out errors without and with one more column."""
    base = np.asarray(baseline, dtype=np.int64)
    full = np.append(base, added)
    with_column = np.empty_like(moments.total)
    coefficient = np.empty((folds.max() + 1, moments.total.shape[1]))
    for fold in range(folds.max() + 1):
        inside = folds == fold
        fitted = solve(moments, full, ~inside)
        coefficient[fold] = fitted[-1]
        with_column[inside] = squared_error(
            moments.gram[inside][:, full][:, :, full],
            moments.cross[inside][:, full],
            moments.total[inside],
            fitted,
        )
    return Comparison(held_out_error(moments, base, folds), with_column, moments.total, coefficient)


def log_ratio(comparison: Comparison) -> Floats:
    """G (C, R) = log of error without over error with the column, held out; > 0 where it helps."""
    return np.log(comparison.without) - np.log(comparison.with_column)


def unique_over_explained(without: Floats, with_column: Floats, total: Floats) -> Floats:
    """What only the column explains, over all that is explained; NaN if nothing is explained."""
    explained = total - with_column
    usable = explained > 0
    return np.where(usable, (without - with_column) / np.where(usable, explained, 1.0), np.nan)
