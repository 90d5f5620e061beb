"""The reproducible part of a row: what two runs of a context with fresh y and order share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bootstrap import Intervals, percentile_intervals, ratio_intervals, safe_ratio
from analysis.centring import double_centred
from analysis.design import Floats
from analysis.folds import Indices, ridge_solution
from analysis.moments import Moments


class Replicate(NamedTuple):
    """The same examples and queries once more, with fresh y, noise and order.

    scores: (C, M, R, N), example i at the place that it has in the main contexts;
    valid: (C,), False for a context that was not run twice.
    """

    scores: NDArray[np.floating]
    valid: NDArray[np.bool_]


class Shared(NamedTuple):
    """Products of the main rows with their replicates within each of the V contexts run twice.

    cross: (V, K, R), columns with replicate rows; covariance: (V, R), row with replicate;
    total: (V, R), replicate with itself; valid: (C,), which contexts these are.
    """

    cross: Floats
    covariance: Floats
    total: Floats
    valid: NDArray[np.bool_]


def shared_moments(
    scores: NDArray[np.floating],
    replicate: Replicate,
    columns: Floats,
    tested: Indices,
    scale: Floats,
) -> Shared:
    """Multiply the replicates with the main rows and the columns, in units of the main rows' sd."""
    cells = columns.shape[1] * columns.shape[2]
    cross, covariance, total = [], [], []
    for c in np.flatnonzero(replicate.valid):
        pair = [
            double_centred(part[c][:, tested].astype(np.float64).transpose(1, 0, 2)).reshape(
                len(tested), cells
            )
            for part in (scores, replicate.scores)
        ]
        cross.append(columns[c].reshape(cells, -1).T @ pair[1].T)
        covariance.append((pair[0] * pair[1]).sum(axis=1))
        total.append((pair[1] ** 2).sum(axis=1))
    unit = scale[tested]
    return Shared(
        np.stack(cross) / unit,
        np.stack(covariance) / unit**2,
        np.stack(total) / unit**2,
        replicate.valid,
    )


def shared_by_block(shared: Shared, blocks: NDArray[np.int64]) -> Shared:
    """Sum over the contexts of each block; a block counts if all its contexts were run twice."""
    places = np.full(len(blocks), -1)
    places[shared.valid] = np.arange(int(shared.valid.sum()))
    units = [places[blocks == block] for block in np.unique(blocks)]
    whole = [unit for unit in units if (unit >= 0).all()]

    def summed(part: Floats) -> Floats:
        return np.stack([part[unit].sum(axis=0) for unit in whole]) if whole else part[:0]

    return Shared(
        summed(shared.cross),
        summed(shared.covariance),
        summed(shared.total),
        np.array([bool((unit >= 0).all()) for unit in units]),
    )


def unique_weights(moments: Moments, baseline: Indices, column: int) -> Floats:
    """The combination (K,) of columns that is the column less what the baseline predicts of it."""
    gram = moments.gram.sum(axis=0)
    observations = len(moments.gram) * moments.cells
    weights = np.zeros(len(gram))
    weights[baseline] = -ridge_solution(
        gram[np.ix_(baseline, baseline)], gram[baseline, column], observations
    )
    weights[column] = 1.0
    return weights


def share_of_reproducible(
    moments: Moments, shared: Shared, weights: Floats, counts: Floats
) -> Intervals:
    """Share of the covariance of two runs that only the hypothesis explains, (R,).

    <a, u> <a', u> / (<u, u> <a, a'>), summed over contexts before dividing, with a and a' the
    two runs' rows and u the part of the hypothesis that M0* does not predict. Noise, y and order
    are drawn afresh, so they add nothing to the products. NaN where the two runs do not covary
    above 0 in the data or in a resample. counts: (B, V).
    """
    first = np.tensordot(moments.cross[shared.valid], weights, axes=(1, 0))
    second = np.tensordot(shared.cross, weights, axes=(1, 0))
    own = np.einsum("k,ckl,l->c", weights, moments.gram[shared.valid], weights)[:, None]
    everything = np.vstack([np.ones(len(own)), counts])
    sums = [everything @ part for part in (first, second, own, shared.covariance)]
    ratio = safe_ratio(sums[0] * sums[1], sums[2]) * safe_ratio(np.ones_like(sums[3]), sums[3])
    return percentile_intervals(ratio[0], ratio[1:])


def reproducible_share(moments: Moments, shared: Shared, counts: Floats) -> Intervals:
    """Covariance of two runs over their mean variance, query-centred, (R,)."""
    variance = 0.5 * (moments.total[shared.valid] + shared.total)
    return ratio_intervals(shared.covariance, variance, counts)
