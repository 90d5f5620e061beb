"""Rows of kernel methods that solve a small system: kernel ridge and local linear regression."""

import numpy as np

from analysis.bank.checks import positive
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.kernels import gaussian_scores, median_distance, softmax_rows
from analysis.bank.naming import shown, written
from analysis.bank.online import with_intercept
from analysis.design import ContextArrays, Floats


def kernel_ridge(multiple: float, penalty: float) -> Hypothesis:
    """k(q, X) (K + penalty I)^-1 with a Gaussian kernel, k(x, x) = 1, no intercept.

    multiple: width as a multiple of the context's median distance; penalty above 0.
    """
    factor = positive("kernel_ridge", "multiple of the median distance", multiple)
    strength = positive("kernel_ridge", "penalty", penalty)

    def row(contexts: ContextArrays) -> Floats:
        width = factor * median_distance(contexts)
        own = np.exp(gaussian_scores(contexts._replace(queries=contexts.x), width))
        system = own + strength * np.eye(own.shape[1])
        towards = np.exp(gaussian_scores(contexts, width))
        solved = np.linalg.solve(system, towards.transpose(0, 2, 1))
        return np.asarray(solved.transpose(0, 2, 1), dtype=np.float64)

    return Hypothesis(
        name=written("kernel_ridge", factor, strength),
        family="kernel",
        statement=f"kernel ridge, width {shown(factor)} x median distance, penalty {strength:g}",
        source="2305.12766 (kernel regression); Saunders et al. 1998 (kernel ridge)",
        row=row,
        params={"multiple": factor, "penalty": strength},
    )


def local_linear(multiple: float, penalty: float) -> Hypothesis:
    """A ridge regression around the query, its examples weighted by a Gaussian kernel.

    multiple: width as a multiple of the context's median distance. penalty: on the slopes, as a
        multiple of the weighted mean of (x_i - q)^2 over features; the intercept is free.
    """
    factor = positive("local_linear", "multiple of the median distance", multiple)
    strength = positive("local_linear", "penalty", penalty)

    def row(contexts: ContextArrays) -> Floats:
        scores = gaussian_scores(contexts, factor * median_distance(contexts))
        weights = softmax_rows(scores)
        apart = with_intercept(contexts.x[:, None] - contexts.queries[:, :, None])
        moments = np.einsum("cmn,cmnp,cmnq->cmpq", weights, apart, apart)
        features = contexts.x.shape[2]
        spread = np.einsum("cmpp->cm", moments[:, :, 1:, 1:]) / features
        # An example at the query with no other near leaves no slope: any penalty gives slope 0.
        added = np.where(spread > 0, strength * spread, 1.0)
        slopes = np.diag([0.0] + [1.0] * features)
        system = moments + added[:, :, None, None] * slopes
        first = np.linalg.solve(system, np.eye(features + 1)[:, :1])
        return np.asarray(weights * np.einsum("cmp,cmnp->cmn", first[..., 0], apart))

    return Hypothesis(
        name=written("local_linear", factor, strength),
        family="kernel",
        statement=f"local linear regression, width {shown(factor)} x median distance, "
        f"penalty {strength:g}",
        source="Cleveland 1979, JASA 74 (locally weighted regression)",
        row=row,
        params={"multiple": factor, "penalty": strength},
    )
