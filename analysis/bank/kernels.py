"""Rows of kernel averages and nearest examples."""

import numpy as np

from analysis.bank.checks import count, positive
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats

KERNEL_SOURCE = "2305.12766, section 4"
# Printed numbers tie often; distances of tied examples differ by rounding only.
TIE = 1e-9


def distances(contexts: ContextArrays) -> Floats:
    """Euclidean distance of each query to each example, (C, M, N), in codec coordinates."""
    apart = contexts.queries[:, :, None] - contexts.x[:, None]
    return np.asarray(np.linalg.norm(apart, axis=3))


def median_distance(contexts: ContextArrays) -> Floats:
    """The median distance between two examples of each context, (C,).

    Where more than half of the pairs coincide it is the smallest distance above 0, and 1 where
    all examples are one point.
    """
    first, second = np.triu_indices(contexts.x.shape[1], k=1)
    pairs = np.linalg.norm(contexts.x[:, first] - contexts.x[:, second], axis=2)
    if pairs.shape[1] == 0:
        return np.ones(len(pairs))
    smallest = np.where(pairs > 0, pairs, np.inf).min(axis=1)
    fallback = np.where(np.isfinite(smallest), smallest, 1.0)
    median = np.median(pairs, axis=1)
    return np.where(median > 0, median, fallback)


def softmax_rows(exponents: Floats) -> Floats:
    """exp(exponent) normalised over the examples (last axis), without overflow."""
    raised = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def gaussian_scores(contexts: ContextArrays, width: Floats) -> Floats:
    """-distance^2 / (2 width^2), (C, M, N); width is (C,) or a number."""
    spread = np.broadcast_to(width, len(contexts.x))[:, None, None]
    return -0.5 * (distances(contexts) / spread) ** 2


def kernel(multiple: float) -> Hypothesis:
    """Gaussian Nadaraya-Watson average, width a multiple of the context's median distance."""
    factor = positive("kernel", "multiple of the median distance", multiple)

    def score(contexts: ContextArrays) -> Floats:
        return gaussian_scores(contexts, factor * median_distance(contexts))

    return Hypothesis(
        name=written("kernel", factor),
        family="kernel",
        statement=f"Gaussian kernel average, width {written('x', factor)[2:-1]} x median distance",
        source=KERNEL_SOURCE,
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
        params={"multiple": factor},
    )


def kernel_fixed(width: float) -> Hypothesis:
    """Gaussian Nadaraya-Watson average with one width (codec units) for all contexts."""
    spread = positive("kernel_fixed", "width", width)

    def score(contexts: ContextArrays) -> Floats:
        return gaussian_scores(contexts, np.asarray(spread))

    return Hypothesis(
        name=written("kernel_fixed", spread),
        family="kernel",
        statement=f"Gaussian kernel average, width {spread:g} in every context",
        source=KERNEL_SOURCE,
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
        params={"width": spread},
    )


def nearest(neighbours: float) -> Hypothesis:
    """1/k on the k nearest examples; examples tied for the last places share them equally."""
    kept = count("nearest", "neighbours", neighbours, low=1)

    def row(contexts: ContextArrays) -> Floats:
        examples = contexts.x.shape[1]
        if kept > examples:
            raise ValueError(
                f"hypothesis 'nearest({kept})' needed at least {kept} examples; came {examples}"
            )
        away = distances(contexts)
        last = np.sort(away, axis=2)[:, :, kept - 1 : kept]
        inside = away < last - TIE
        tied = np.abs(away - last) <= TIE
        left = kept - inside.sum(axis=2, keepdims=True)
        return np.asarray((inside + tied * left / tied.sum(axis=2, keepdims=True)) / kept)

    return Hypothesis(
        name=written("nearest", kept),
        family="kernel",
        statement=f"mean of the {kept} nearest examples" if kept > 1 else "the nearest example",
        source=KERNEL_SOURCE,
        row=row,
        params={"neighbours": kept},
    )
