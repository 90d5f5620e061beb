"""Rows that invert the spectrum of Sc, wholly or in part."""

from collections.abc import Callable

import numpy as np

from analysis.bank.checks import count, positive
from analysis.bank.geometry import inverted, one_minus_power, spectral_rows
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import counted, written
from analysis.design import ContextArrays, Floats

OLS_AS_ATTENTION = "2504.09663 (least squares as attention)"
ITERATIVE_NEWTON = "2310.17086 (iterative Newton)"


def ols() -> Hypothesis:
    """Least squares: 1/N + (q - mean)' Sc^-1 (x_i - mean), minimum norm where Sc is singular."""
    return Hypothesis(
        name="ols",
        family="inverse",
        statement="least squares: (q - mean)' Sc^-1 (x_i - mean) + 1/N",
        source=OLS_AS_ATTENTION,
        affine_invariant=True,
        row=lambda contexts: spectral_rows(contexts, inverted),
    )


def min_norm() -> Hypothesis:
    """Least squares by the pseudo-inverse; equal to ols unless N <= P or columns repeat.

    Not marked affine invariant: which solution has the least norm depends on the coordinates.
    """
    return Hypothesis(
        name="min_norm",
        family="inverse",
        statement="least squares of least norm: (q - mean)' Sc^+ (x_i - mean) + 1/N",
        source=OLS_AS_ATTENTION,
        row=lambda contexts: spectral_rows(contexts, inverted),
    )


def ridge(penalty: float) -> Hypothesis:
    """Ridge with the penalty as a multiple of the mean eigenvalue tr(Sc)/P."""
    strength = positive("ridge", "penalty", penalty, zero=True)

    def multiplier(eigenvalues: Floats) -> Floats:
        added = strength * eigenvalues.mean(axis=1, keepdims=True)
        return np.where(eigenvalues > 0, inverted(eigenvalues + added), 0.0)

    return Hypothesis(
        name=written("ridge", strength),
        family="inverse",
        statement=f"ridge, penalty {strength:g} x tr(Sc)/P",
        source="2504.09663, section 3.1",
        row=lambda contexts: spectral_rows(contexts, multiplier),
        params={"penalty": strength},
    )


def pcr(components: float) -> Hypothesis:
    """Least squares on the strongest `components` eigenvectors of Sc; on all if P is less."""
    kept = count("pcr", "components", components, low=1)

    def multiplier(eigenvalues: Floats) -> Floats:
        keep = np.arange(eigenvalues.shape[1]) < kept
        return inverted(np.where(keep, eigenvalues, 0.0))

    return Hypothesis(
        name=written("pcr", kept),
        family="inverse",
        statement=f"least squares on the strongest {counted(kept, 'eigenvector')} of Sc",
        source="2504.09663, section 3.1",
        row=lambda contexts: spectral_rows(contexts, multiplier),
        params={"components": kept},
    )


def newton(steps: float) -> Hypothesis:
    """Newton-Schulz inversion of Sc from M_0 = a Sc with one a for all contexts.

    a = 2 / (lambda_max^2 + lambda_min^2), the extremes over all contexts given: the bound below
    which every context converges. See `newton_rows` for what is computed.
    """
    iterations = count("newton", "steps", steps, low=0)

    def start(eigenvalues: Floats) -> Floats:
        present = eigenvalues[eigenvalues > 0]
        smallest = present.min(keepdims=True) if len(present) else np.zeros(1)
        return 2.0 * inverted(eigenvalues.max() ** 2 + smallest**2)

    return Hypothesis(
        name=written("newton", iterations),
        family="inverse" if iterations else "context-scaled",
        statement=f"Newton-Schulz inversion of Sc, {counted(iterations, 'step')}, "
        "one start for all contexts",
        source=ITERATIVE_NEWTON,
        row=lambda contexts: newton_rows(contexts, iterations, start),
        params={"steps": iterations},
    )


def newton_per_context(steps: float) -> Hypothesis:
    """Newton-Schulz inversion of Sc from M_0 = a Sc with a from each context's own extremes.

    From the first step on, what is left of the strongest and of the weakest direction is the same:
    at P = 2 these rows are least squares times a number of each context's own.
    """
    iterations = count("newton_per_context", "steps", steps, low=0)

    def start(eigenvalues: Floats) -> Floats:
        strongest = eigenvalues[:, :1]
        present = np.where(eigenvalues > 0, eigenvalues, strongest)
        return 2.0 * inverted(strongest**2 + present.min(axis=1, keepdims=True) ** 2)

    return Hypothesis(
        name=written("newton_per_context", iterations),
        family="inverse" if iterations else "context-scaled",
        statement=f"Newton-Schulz inversion of Sc, {counted(iterations, 'step')}, "
        "a start of each context's own",
        source=ITERATIVE_NEWTON,
        row=lambda contexts: newton_rows(contexts, iterations, start),
        params={"steps": iterations},
    )


def newton_rows(contexts: ContextArrays, steps: int, start: Callable[[Floats], Floats]) -> Floats:
    """Rows with M_steps, M_0 = a Sc and M_{j+1} = 2 M_j - M_j Sc M_j, in place of Sc^-1.

    What is left of an eigenvalue l, 1 - l m_j, is (1 - a l^2)^(2^j); that is what is computed.
    """

    def multiplier(eigenvalues: Floats) -> Floats:
        rate = start(eigenvalues) * eigenvalues**2
        return one_minus_power(rate, 2.0 ** min(steps, 1000)) * inverted(eigenvalues)

    return spectral_rows(contexts, multiplier)
