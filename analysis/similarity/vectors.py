"""Cosines and parts of vectors, undefined where a vector is zero."""

import numpy as np

from analysis.similarity.records import Floats

ROUNDING = 1e-9


def cosine(a: Floats, b: Floats) -> Floats:
    """Cosine over the last axis; NaN where either vector is zero, which has no direction."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return np.asarray((unit(a) * unit(b)).sum(axis=-1))


def unit(vector: Floats) -> Floats:
    """The vector over its norm, along the last axis; NaN where it is zero.

    Its largest entry is divided out first, so that neither tiny nor huge numbers are lost.
    """
    wide = np.asarray(vector, dtype=np.float64)
    largest = np.abs(wide).max(axis=-1, keepdims=True)
    scaled = wide / np.where(largest > 0, largest, np.nan)
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))


def orthogonal_part(vector: Floats, to: Floats) -> Floats:
    """What is left of the vector without its part along another, over the last axis.

    Exactly zero where it is rounding only (below 1e-9 of the vector).
    """
    wide, direction = np.asarray(vector, dtype=np.float64), unit(to)
    left = wide - (wide * direction).sum(axis=-1, keepdims=True) * direction
    sizes = [np.linalg.norm(one, axis=-1, keepdims=True) for one in (left, wide)]
    return np.where(sizes[0] > ROUNDING * sizes[1], left, 0.0)


def centred(scores: Floats) -> Floats:
    """Scores minus their mean over the last axis: what a softmax sees of them."""
    wide = np.asarray(scores, dtype=np.float64)
    return np.asarray(wide - wide.mean(axis=-1, keepdims=True))


def mean_defined(values: Floats) -> Floats:
    """Mean over the last axis of the values that are defined; NaN where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)
