"""Products of rows and columns within each context: all that a least-squares comparison needs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.centring import double_centred
from analysis.design import Floats

BLIND_VARIANCE = 1e-6


class Moments(NamedTuple):
    """Sums over the queries and examples of each context.

    gram: (C, K, K), columns with columns; cross: (C, K, R), columns with rows;
    total: (C, R), rows with themselves; cells: number of (query, example) cells of a context.
    """

    gram: Floats
    cross: Floats
    total: Floats
    cells: int


class Rows(NamedTuple):
    """The moments of the rows that can be tested, each scaled to unit sd, and what became of all.

    blind: (R,), query-centred variance below 1e-6 of the largest; outside: (R,), not finite
    somewhere (examples beyond a sliding window); tested: indices of the others, in order;
    scale: (R,), the query-centred sd of each row (NaN outside), in the scores' own unit.
    """

    moments: Moments
    blind: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    tested: NDArray[np.int64]
    scale: Floats


def by_block(moments: Moments, blocks: NDArray[np.int64]) -> Moments:
    """Sum the products of the contexts of each block: the blocks are then the units.

    cells becomes the mean number of cells of a block.
    """
    units = [blocks == block for block in np.unique(blocks)]
    gram, cross, total = (
        np.stack([part[unit].sum(axis=0) for unit in units]) for part in moments[:3]
    )
    return Moments(gram, cross, total, round(moments.cells * len(blocks) / len(units)))


def column_gram(columns: Floats) -> Floats:
    """Products of columns (C, M, N, K) with each other within each context, (C, K, K)."""
    flat = columns.reshape(columns.shape[0], -1, columns.shape[-1])
    return flat.swapaxes(1, 2) @ flat


def row_moments(scores: NDArray[np.floating], columns: Floats) -> Rows:
    """Centre scores (C, M, R, N) over examples and queries, and multiply them with the columns.

    One context at a time, so that no copy of all scores is made.
    """
    contexts, queries, rows, examples = scores.shape
    cells = queries * examples
    flat = columns.reshape(contexts, cells, columns.shape[-1])
    cross = np.empty((contexts, columns.shape[-1], rows))
    total = np.empty((contexts, rows))
    for c in range(contexts):
        centred = double_centred(scores[c].astype(np.float64).transpose(1, 0, 2)).reshape(rows, -1)
        total[c] = (centred**2).sum(axis=1)
        cross[c] = flat[c].T @ centred.T
    outside = np.asarray(~np.isfinite(total).all(axis=0))
    variance = np.where(outside, np.nan, total.sum(axis=0)) / (contexts * cells)
    largest = np.nanmax(variance, initial=0.0)
    blind = np.asarray(~outside & ~(variance > BLIND_VARIANCE * largest))
    tested = np.flatnonzero(~outside & ~blind)
    scale = np.sqrt(variance)
    moments = Moments(
        column_gram(columns),
        cross[:, :, tested] / scale[tested],
        total[:, tested] / variance[tested],
        cells,
    )
    return Rows(moments, blind, outside, tested, scale)
