"""How well a softmax could show a row at best: the ceiling beside any number on weights."""

import numpy as np
from numpy.typing import NDArray

from analysis.design import Floats
from analysis.inference import Interval, mean_interval


def score_scale(scores: NDArray[np.floating]) -> Floats:
    """The size of each head's scores: their sd over the examples of a query, (R,).

    scores: (C, M, R, N); the root of the mean variance over contexts and queries.
    """
    variance = [one.astype(np.float64).var(axis=-1).mean(axis=0) for one in scores]
    return np.asarray(np.sqrt(np.mean(variance, axis=0)))


def correlation_with(weights: NDArray[np.floating], rows: Floats) -> Interval:
    """Correlation over the examples of softmax weights with a row, mean over queries.

    weights, rows: (C, M, N). Contexts are the unit of the interval; constant rows are left out.
    Its most is `ceiling`.
    """
    pair = [np.asarray(one, dtype=np.float64) for one in (weights, rows)]
    centred = [one - one.mean(axis=-1, keepdims=True) for one in pair]
    sizes = [np.sqrt((one**2).sum(axis=-1)) for one in centred]
    product, size = (centred[0] * centred[1]).sum(axis=-1), sizes[0] * sizes[1]
    each = np.where(size > 0, product / np.where(size > 0, size, 1.0), np.nan)
    known = np.isfinite(each)
    counted = known.sum(axis=1)
    sums = np.where(known, each, 0.0).sum(axis=1)
    return mean_interval(np.where(counted > 0, sums / np.maximum(counted, 1), np.nan))


def ceiling(rows: Floats, scale: Floats | float) -> Floats:
    """Correlation with a row of the softmax of that very row, for each score scale.

    rows: (C, M, N), for example least-squares rows. scale: standard deviations over the examples
    of a query, any shape; the inverse of a temperature. Each row is standardised, multiplied by
    the scale and passed through a softmax; the result is the mean of the correlations over all
    rows that are not constant, in [0, 1], of the shape of `scale`; NaN where every row is constant.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    centred = flat - flat.mean(axis=1, keepdims=True)
    size = centred.std(axis=1, keepdims=True)
    unit = centred[size[:, 0] > 0] / size[size[:, 0] > 0]
    scales = np.asarray(scale, dtype=np.float64)
    found = np.full(scales.shape, np.nan)
    for place in np.ndindex(scales.shape):
        if len(unit):
            found[place] = _correlation(unit, float(scales[place]))
    return found


def _correlation(unit: Floats, scale: float) -> float:
    if scale == 0:
        return float("nan")
    logits = scale * unit
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    centred = weights - weights.mean(axis=1, keepdims=True)
    return float(((unit * centred).mean(axis=1) / centred.std(axis=1)).mean())
