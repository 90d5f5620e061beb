"""The inversion index: how far the weakest direction of the examples is inverted."""

import numpy as np

from analysis.bootstrap import Intervals, percentile_intervals, undefined
from analysis.design import Floats
from analysis.folds import RIDGE, Indices
from analysis.moments import Moments

BLOCK = 64


def inversion_intervals(
    moments: Moments, directions: Indices, nuisance: Indices, sd: Floats, counts: Floats
) -> Intervals:
    """Coefficient on the weakest eigen-direction of Sc over that on the strongest, (R,).

    1 for least squares, below 1 for ridge and early gradient descent, 0 for one direction only,
    1/condition for a dot product. The directions are fitted jointly, together with the nuisance
    columns (places and numerals, which can mimic a product of numbers); whole contexts are
    resampled. NaN with one feature, and where a resample leaves no coefficient above 0 on the
    strongest direction.
    """
    rows = moments.total.shape[1]
    if len(directions) < 2:
        return undefined(rows)
    picked = np.concatenate([directions[[0, -1]], directions[1:-1], nuisance])
    gram = moments.gram[:, picked][:, :, picked]
    cross = moments.cross[:, picked]
    contexts = len(gram)
    everything = np.vstack([np.ones(contexts), counts])
    ratio = np.empty((len(everything), rows))
    for start in range(0, len(everything), BLOCK):
        weights = everything[start : start + BLOCK]
        left = np.tensordot(weights, gram, axes=1)
        left = left + RIDGE * contexts * moments.cells * np.eye(len(picked))
        pick = np.linalg.solve(left, np.eye(len(picked))[:, :2]).swapaxes(1, 2)
        fitted = pick @ np.tensordot(weights, cross, axes=1)
        strongest, weakest = fitted[:, 0] / sd[0], fitted[:, 1] / sd[-1]
        positive = strongest > 0
        ratio[start : start + BLOCK] = np.where(
            positive, weakest / np.where(positive, strongest, 1.0), np.nan
        )
    return percentile_intervals(ratio[0], ratio[1:])
