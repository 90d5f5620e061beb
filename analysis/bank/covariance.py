"""Rows that invert a regularised form of Sc other than ridge."""

import numpy as np

from analysis.bank.checks import count, share
from analysis.bank.geometry import (
    SINGULAR_CUT,
    centred,
    geometry,
    inverted,
    metric_rows,
    spectral_rows,
)
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import counted, written
from analysis.design import ContextArrays, Floats

OTHER_DIAGONAL = "2504.09663, section 3.1"


def cross_product(contexts: ContextArrays) -> Floats:
    """Sc = Xc' Xc, (C, P, P)."""
    _, examples = centred(contexts)
    return np.asarray(examples.transpose(0, 2, 1) @ examples)


def symmetric_inverse(matrices: Floats) -> Floats:
    """Pseudo-inverse of symmetric (C, P, P); eigenvalues of at most 1e-12 of the largest are cut.

    Negative eigenvalues, which thresholding can leave, are cut with them.
    """
    values, vectors = np.linalg.eigh(matrices)
    largest = values[:, -1:]
    kept = np.where(values > 1e-12 * largest, values, 0.0)
    return np.asarray(vectors * inverted(kept)[:, None, :] @ vectors.transpose(0, 2, 1))


def ledoit_wolf_shares(contexts: ContextArrays) -> Floats:
    """The share by which Ledoit and Wolf pull Sc/N towards a multiple of I, (C,), in [0, 1]."""
    _, examples = centred(contexts)
    count_, features = examples.shape[1:]
    covariance = cross_product(contexts) / count_
    mean = np.trace(covariance, axis1=1, axis2=2) / features
    fourth = ((examples**2).sum(axis=2) ** 2).sum(axis=1) / count_
    squared = (covariance**2).sum(axis=(1, 2))
    spread = squared - features * mean**2
    noise = np.minimum(np.maximum((fourth - squared) / count_, 0.0), spread)
    usable = spread > SINGULAR_CUT * squared
    return np.asarray(np.divide(noise, spread, out=np.zeros_like(noise), where=usable))


def ledoit_wolf() -> Hypothesis:
    """Ridge with the penalty that Ledoit and Wolf's shrinkage gives each context."""

    def row(contexts: ContextArrays) -> Floats:
        pull = ledoit_wolf_shares(contexts)[:, None]

        def multiplier(eigenvalues: Floats) -> Floats:
            shrunk = (1 - pull) * eigenvalues + pull * eigenvalues.mean(axis=1, keepdims=True)
            return np.where(eigenvalues > 0, inverted(shrunk), 0.0)

        return spectral_rows(contexts, multiplier)

    return Hypothesis(
        name="ledoit_wolf",
        family="inverse",
        statement="Ledoit-Wolf covariance inverted: a ridge with a penalty of each context's own",
        source=f"{OTHER_DIAGONAL}; Ledoit and Wolf 2004",
        row=row,
    )


def threshold(level: float) -> Hypothesis:
    """Sc with off-diagonal entries pulled to zero by `level` x tr(Sc)/P (soft), inverted."""
    part = share("threshold", "level as a share of tr(Sc)/P", level, one=True)

    def row(contexts: ContextArrays) -> Floats:
        product = cross_product(contexts)
        features = product.shape[1]
        cut = part * np.trace(product, axis1=1, axis2=2)[:, None, None] / features
        pulled = np.sign(product) * np.maximum(np.abs(product) - cut, 0.0)
        kept = np.where(np.eye(features, dtype=bool), product, pulled)
        return metric_rows(contexts, symmetric_inverse(kept))

    return Hypothesis(
        name=written("threshold", part),
        family="inverse",
        statement=f"covariances soft-thresholded at {part:g} x tr(Sc)/P, then inverted",
        source=OTHER_DIAGONAL,
        row=row,
        params={"level": part},
    )


def factor(factors: float) -> Hypothesis:
    """The strongest eigenvectors of Sc plus a diagonal that restores its variances, inverted."""
    kept = count("factor", "factors", factors, low=1)

    def row(contexts: ContextArrays) -> Floats:
        parts = geometry(contexts)
        strong = np.where(np.arange(contexts.x.shape[2]) < kept, parts.eigenvalues, 0.0)
        vectors = parts.directions
        common = vectors * strong[:, None, :] @ vectors.transpose(0, 2, 1)
        left = np.einsum("cpp->cp", cross_product(contexts) - common)
        own = np.maximum(left, 0.0)[:, :, None] * np.eye(contexts.x.shape[2])
        return metric_rows(contexts, symmetric_inverse(np.asarray(common + own)))

    return Hypothesis(
        name=written("factor", kept),
        family="inverse",
        statement=f"{counted(kept, 'common factor')} plus each feature's own variance, inverted",
        source=OTHER_DIAGONAL,
        row=row,
        params={"factors": kept},
    )


def diagonal() -> Hypothesis:
    """Sc without its off-diagonal entries, inverted: one regression for each feature alone."""

    def row(contexts: ContextArrays) -> Floats:
        variances = np.einsum("cpp->cp", cross_product(contexts))
        kept = np.where(variances > 1e-16 * variances.max(axis=1, keepdims=True), variances, 0.0)
        return metric_rows(contexts, inverted(kept)[:, :, None] * np.eye(kept.shape[1]))

    return Hypothesis(
        name="diagonal",
        family="context-scaled",
        statement="diag(Sc)^-1: each feature standardised by itself (at P = 1 this is ols)",
        source=OTHER_DIAGONAL,
        row=row,
    )
