"""Cosines and parts of vectors, undefined where a vector is zero."""

import numpy as np

from analysis.similarity.records import Floats

ROUNDING = 1e-9
SINGLE = 1e-5
"""Two float32 forwards of one and the same thing differ by less than this share of it."""


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


def change(after: Floats, before: Floats) -> Floats:
    """`after` minus `before`, over the last axis; exactly zero where it is rounding only.

    Below 1e-5 of the longer one: such a difference has no direction, and that of scores would even
    look alike in runs that have nothing in common.
    """
    wide = [np.asarray(one, dtype=np.float64) for one in (after, before)]
    return where_above(wide[0] - wide[1], SINGLE * np.maximum(*map(_size, wide)))


def where_above(vector: Floats, least: Floats) -> Floats:
    """The vector, along the last axis, or zero where it is no longer than `least`."""
    return np.where(_size(vector) > least, vector, 0.0)


def _size(vector: Floats) -> Floats:
    return np.asarray(np.linalg.norm(vector, axis=-1, keepdims=True))


def orthogonal_part(vector: Floats, to: Floats) -> Floats:
    """What is left of the vector without its part along another, over the last axis.

    Exactly zero where it is rounding only (below 1e-9 of the vector).
    """
    wide, direction = np.asarray(vector, dtype=np.float64), unit(to)
    left = wide - (wide * direction).sum(axis=-1, keepdims=True) * direction
    return where_above(left, ROUNDING * _size(wide))


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
