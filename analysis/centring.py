"""Centring over examples and queries, and the least-squares row split by eigen-direction."""

import numpy as np

from analysis.bank.geometry import Geometry, inverted
from analysis.design import Floats


def double_centred(values: Floats) -> Floats:
    """Values (..., M, N) less their mean over examples and their mean over queries."""
    over_examples = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(over_examples - over_examples.mean(axis=-2, keepdims=True))


def centred_columns(values: Floats) -> Floats:
    """Columns (C, M, N, K) less their mean over examples and over queries."""
    over_examples = values - values.mean(axis=2, keepdims=True)
    return np.asarray(over_examples - over_examples.mean(axis=1, keepdims=True))


def direction_rows(shape: Geometry) -> Floats:
    """The least-squares row by eigen-direction of Sc, (C, M, N, P), strongest direction first.

    (q - mean)' u u' (x_i - mean) / eigenvalue for each eigenvector u; 0 where the examples do not
    span the direction. Their sum is the least-squares row less its 1/N.
    """
    weighed = shape.query_parts * inverted(shape.eigenvalues)[:, None, :]
    return weighed[:, :, None, :] * shape.example_parts[:, None, :, :]
