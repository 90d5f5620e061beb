"""Centring over examples and queries."""

import numpy as np

from analysis.design import Floats


def double_centred(values: Floats) -> Floats:
    """Values (..., M, N) less their mean over examples and their mean over queries."""
    over_examples = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(over_examples - over_examples.mean(axis=-2, keepdims=True))


def centred_columns(values: Floats) -> Floats:
    """Columns (C, M, N, K) less their mean over examples and over queries."""
    over_examples = values - values.mean(axis=2, keepdims=True)
    return np.asarray(over_examples - over_examples.mean(axis=1, keepdims=True))
