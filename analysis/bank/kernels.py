"""Rows of kernel averages (Nadaraya-Watson) and nearest examples."""

from collections.abc import Callable

import numpy as np

from analysis.bank.checks import count, positive
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import shown, written
from analysis.design import ContextArrays, Floats

KERNEL_SOURCE = "2305.12766 (kernel regression)"
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


def kernel_average(
    name: str, statement: str, score: Callable[[ContextArrays], Floats], **params: float
) -> Hypothesis:
    """The average of y weighted by exp(score), with the score image beside the weights."""
    return Hypothesis(
        name=name,
        family="kernel",
        statement=statement,
        source=KERNEL_SOURCE,
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
        params=params,
    )


def kernel(multiple: float) -> Hypothesis:
    """Gaussian kernel average, its width a multiple of the context's median distance."""
    factor = positive("kernel", "multiple of the median distance", multiple)
    return kernel_average(
        written("kernel", factor),
        f"Gaussian kernel average, width {shown(factor)} x the context's median distance",
        lambda contexts: gaussian_scores(contexts, factor * median_distance(contexts)),
        multiple=factor,
    )


def kernel_fixed(width: float) -> Hypothesis:
    """Gaussian kernel average with one width (codec units) for all contexts."""
    spread = positive("kernel_fixed", "width", width)
    return kernel_average(
        written("kernel_fixed", spread),
        f"Gaussian kernel average, width {shown(spread)} codec units in every context",
        lambda contexts: gaussian_scores(contexts, np.asarray(spread)),
        width=spread,
    )


def laplace(multiple: float) -> Hypothesis:
    """Kernel average with exp(-distance / width), width a multiple of the median distance."""
    factor = positive("laplace", "multiple of the median distance", multiple)

    def score(contexts: ContextArrays) -> Floats:
        return -distances(contexts) / (factor * median_distance(contexts))[:, None, None]

    return kernel_average(
        written("laplace", factor),
        f"Laplace kernel average, width {shown(factor)} x the context's median distance",
        score,
        multiple=factor,
    )


def nearest(neighbours: float) -> Hypothesis:
    """1/k on the k nearest examples (all N if k is more).

    Examples tied for the last places share them equally, so the order of printing is no tie-break.
    """
    asked = count("nearest", "neighbours", neighbours, low=1)

    def row(contexts: ContextArrays) -> Floats:
        kept = min(asked, contexts.x.shape[1])
        away = distances(contexts)
        last = np.sort(away, axis=2)[:, :, kept - 1 : kept]
        inside = away < last - TIE
        tied = np.abs(away - last) <= TIE
        left = kept - inside.sum(axis=2, keepdims=True)
        return np.asarray((inside + tied * left / tied.sum(axis=2, keepdims=True)) / kept)

    return Hypothesis(
        name=written("nearest", asked),
        family="kernel",
        statement="the nearest example" if asked == 1 else f"mean of the {asked} nearest examples",
        source="2208.01066, section 3 (nearest neighbours)",
        row=row,
        params={"neighbours": asked},
    )


LEFT_OUT_MULTIPLES = (1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0, 2.0, 3.0)


def kernel_left_out() -> Hypothesis:
    """Gaussian kernel average whose width is chosen in each context by leave-one-out error.

    The width depends on y, so this is a predictor and has no row. Multiples of the median
    distance that are tried: 1/8, 1/4, 1/3, 1/2, 1, 2, 3; the smallest of those that tie is used.
    """

    def predictor(contexts: ContextArrays) -> Floats:
        median = median_distance(contexts)
        itself = contexts._replace(queries=contexts.x)
        alone = np.where(np.eye(contexts.x.shape[1], dtype=bool), -np.inf, 0.0)
        errors, answers = [], []
        for multiple in LEFT_OUT_MULTIPLES:
            width = multiple * median
            answers.append(weighted(softmax_rows(gaussian_scores(contexts, width)), contexts))
            if contexts.x.shape[1] > 1:
                others = softmax_rows(gaussian_scores(itself, width) + alone)
                errors.append(((weighted(others, contexts) - contexts.y) ** 2).sum(axis=1))
        best = np.argmin(errors, axis=0) if errors else np.zeros(len(median), dtype=int)
        return np.asarray(np.stack(answers)[best, np.arange(len(median))])

    return Hypothesis(
        name="kernel_left_out",
        family="kernel",
        statement="Gaussian kernel average, width by leave-one-out error (a predictor only)",
        source=KERNEL_SOURCE,
        row=None,
        predictor=predictor,
    )


def weighted(rows: Floats, contexts: ContextArrays) -> Floats:
    """Sum over examples of weight times y, (C, M)."""
    return np.asarray(np.einsum("cmn,cn->cm", rows, contexts.y))
