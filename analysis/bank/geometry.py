"""The centred examples of each context and the eigenvectors of their cross-product Sc."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from analysis.design import ContextArrays, Floats

# A printed column has few digits: what is this small beside the largest direction is rounding.
SINGULAR_CUT = 1e-8


class Geometry(NamedTuple):
    """Sc = Xc' Xc = U diag(eigenvalues) U' of every context, with the projections on U.

    eigenvalues: (C, P), falling; exactly 0 for a direction that the examples do not span, which
        is one whose singular value is at most 1e-8 of the context's largest.
    directions: (C, P, P), columns U. query_parts: (C, M, P) = U' (q - mean of x);
    example_parts: (C, N, P) = U' (x_i - mean of x).
    """

    eigenvalues: Floats
    directions: Floats
    query_parts: Floats
    example_parts: Floats


def centred(contexts: ContextArrays) -> tuple[Floats, Floats]:
    """Queries (C, M, P) and examples (C, N, P) minus the mean of the context's examples."""
    mean = contexts.x.mean(axis=1, keepdims=True)
    return contexts.queries - mean, contexts.x - mean


def geometry(contexts: ContextArrays) -> Geometry:
    """The eigenvectors of Sc by singular values of Xc, which keeps small directions exact."""
    queries, examples = centred(contexts)
    _, singular, right = np.linalg.svd(examples, full_matrices=True)
    features = contexts.x.shape[2]
    padded = np.zeros((len(singular), features))
    padded[:, : singular.shape[1]] = singular
    padded[padded <= SINGULAR_CUT * padded[:, :1]] = 0.0
    directions = right[:, :features].transpose(0, 2, 1)
    return Geometry(padded**2, directions, queries @ directions, examples @ directions)


def inverted(eigenvalues: Floats) -> Floats:
    """1 / eigenvalue, 0 where the eigenvalue is 0 (the pseudo-inverse)."""
    present = eigenvalues > 0
    return np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=present)


def spectral_rows(contexts: ContextArrays, multiplier: Callable[[Floats], Floats]) -> Floats:
    """1/N + (q - mean)' U diag(multiplier(eigenvalues)) U' (x_i - mean), (C, M, N)."""
    parts = geometry(contexts)
    scaled = parts.query_parts * multiplier(parts.eigenvalues)[:, None, :]
    products: Floats = scaled @ parts.example_parts.transpose(0, 2, 1)
    return np.asarray(products + 1.0 / contexts.x.shape[1])


def metric_rows(contexts: ContextArrays, metric: Floats) -> Floats:
    """1/N + (q - mean)' metric (x_i - mean), (C, M, N); metric is (P, P) or (C, P, P)."""
    queries, examples = centred(contexts)
    products: Floats = queries @ metric @ examples.transpose(0, 2, 1)
    return np.asarray(products + 1.0 / contexts.x.shape[1])


def one_minus_power(rate: Floats, steps: float) -> Floats:
    """1 - (1 - rate)^steps without cancellation at small rates; `rate` in [0, 2]."""
    small = rate < 0.5
    slow = -np.expm1(steps * np.log1p(-np.where(small, rate, 0.0)))
    fast = 1.0 - np.power(1.0 - np.where(small, 0.5, rate), steps)
    return np.where(small, slow, fast)
