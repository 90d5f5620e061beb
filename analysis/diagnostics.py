"""What a row of weights looks like, and whether it counts as S^-1 on a given design."""

from typing import Literal, NamedTuple

import numpy as np

from analysis.bank.geometry import geometry
from analysis.bank.hypothesis import Hypothesis, rows
from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats
from analysis.directions import direction_rows

COUNTS_FROM = 0.5
COUNTS_NOT_BELOW = 0.1
# A row that moves less than this between queries, beside its own size, is blind to them.
BLIND = 1e-12

Counts = Literal["counts", "does not count", "neither", "undefined"]


class RowDiagnostics(NamedTuple):
    """Facts about rows (C, M, N), each (C, M); NaN where a row is zero.

    total: the sum of the weights; 1 for a weighted mean. negative_share: the part of the absolute
    weight that is negative, 0 to 1. concentration: Herfindahl index of the absolute weights,
    1/N (even) to 1 (one example). effective_examples: its inverse. leverage: the sum of squares,
    which for least squares is the query's leverage and times the noise variance the prediction's.
    turnover: half of the summed absolute change of the weights to the nearest other query of the
    context, 0 (same row) to 1 (no common example) for weighted means; NaN with one query.
    """

    total: Floats
    negative_share: Floats
    concentration: Floats
    effective_examples: Floats
    leverage: Floats
    turnover: Floats


class InversionVerdict(NamedTuple):
    """Inversion index of a hypothesis on a design, and whether its row counts as S^-1 there."""

    inversion_index: float
    says: Counts


def row_diagnostics(weights: Floats, contexts: ContextArrays) -> RowDiagnostics:
    """Describe rows of weights (C, M, N); see `RowDiagnostics`."""
    mass = np.abs(weights).sum(axis=2)
    usable = np.where(mass > 0, mass, np.nan)
    concentration = ((weights / usable[:, :, None]) ** 2).sum(axis=2)
    return RowDiagnostics(
        total=weights.sum(axis=2),
        negative_share=-np.minimum(weights, 0.0).sum(axis=2) / usable,
        concentration=concentration,
        effective_examples=1.0 / concentration,
        leverage=(weights**2).sum(axis=2),
        turnover=turnover(weights, contexts.queries),
    )


def turnover(weights: Floats, queries: Floats) -> Floats:
    """Half of the absolute change of a row (C, M, N) to that of the nearest other query, (C, M).

    Of other queries that tie for nearest, the first. NaN with one query a context.
    """
    if queries.shape[1] < 2:
        return np.full(queries.shape[:2], np.nan)
    apart = np.linalg.norm(queries[:, :, None] - queries[:, None], axis=3)
    apart[:, np.arange(queries.shape[1]), np.arange(queries.shape[1])] = np.inf
    other = np.take_along_axis(weights, apart.argmin(axis=2)[:, :, None], axis=1)
    return np.asarray(0.5 * np.abs(weights - other).sum(axis=2))


def inversion_index(weights: Floats, contexts: ContextArrays) -> float:
    """How much of the weakest eigen-direction of Sc a row holds, over that of the strongest.

    The rows (C, M, N), centred over examples and queries, are fitted jointly by the least-squares
    row's parts along the eigenvectors of each context's Sc; the index is the weakest part's
    coefficient over the strongest's: 1 for least squares, 0 for a row that drops the weakest
    direction, 1 / condition number for a dot product. NaN where it is not defined: rows blind to
    the query, a coefficient of the strongest direction that is not above 0, or no context whose
    examples span two directions (P = 1).
    """
    shape = geometry(contexts)
    spanned = (shape.eigenvalues > 0).sum(axis=1)
    used = spanned >= 2
    if not used.any():
        return float("nan")
    parts = double_centred(np.moveaxis(direction_rows(shape), 3, 0)[:, used])
    columns = ranked_from_both_ends(parts, spanned[used])
    target = double_centred(weights[used]).ravel()
    size = np.abs(weights[used]).max()
    if size == 0 or np.abs(target).max() <= BLIND * size:
        return float("nan")
    coefficients = np.linalg.lstsq(columns, target, rcond=None)[0]
    strongest, weakest = float(coefficients[0]), float(coefficients[-1])
    return weakest / strongest if strongest > 0 else float("nan")


def ranked_from_both_ends(parts: Floats, spanned: Floats) -> Floats:
    """Parts (P, C, M, N) as columns (C M N, P): the weakest direction spanned comes last.

    A context that spans fewer than P directions has zeros between its strongest and its weakest.
    """
    ranked = parts.copy()
    last = parts.shape[0] - 1
    for context in np.flatnonzero(spanned <= last):
        weakest = int(spanned[context]) - 1
        ranked[last, context] = parts[weakest, context]
        ranked[weakest, context] = 0.0
    return np.asarray(ranked.reshape(len(ranked), -1).T)


def inversion_verdict(hypothesis: Hypothesis, contexts: ContextArrays) -> InversionVerdict:
    """Whether a head with this hypothesis' row counts as S^-1 on this design.

    An index of at least .5 counts, below .1 does not, between is neither right nor wrong. A row
    without an index does not count, unless the design itself has none (P = 1 or one query), or the
    hypothesis has no row: then it is undefined.
    """
    spanned = (geometry(contexts).eigenvalues > 0).sum(axis=1)
    if hypothesis.row is None or spanned.max() < 2 or contexts.queries.shape[1] < 2:
        return InversionVerdict(float("nan"), "undefined")
    index = inversion_index(rows(hypothesis, contexts), contexts)
    if index >= COUNTS_FROM:
        return InversionVerdict(index, "counts")
    return InversionVerdict(index, "neither" if index >= COUNTS_NOT_BELOW else "does not count")
