"""Rows that invert the spectrum of Sc, wholly or in part."""

import numpy as np

from analysis.bank.checks import count, positive
from analysis.bank.geometry import inverted, one_minus_power, spectral_rows
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats

OLS_AS_ATTENTION = "2504.09663, section 3"


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
    """Least squares on the strongest `components` eigenvectors of Sc."""
    kept = count("pcr", "components", components, low=1)

    def row(contexts: ContextArrays) -> Floats:
        features = contexts.x.shape[2]
        if kept > features:
            raise ValueError(
                f"hypothesis 'pcr({kept})' needed at least {kept} features; came {features}"
            )
        keep = np.arange(features) < kept
        return spectral_rows(contexts, lambda values: inverted(np.where(keep, values, 0.0)))

    return Hypothesis(
        name=written("pcr", kept),
        family="inverse",
        statement=f"least squares on the {kept} strongest eigenvectors of Sc",
        source="2504.09663, section 3.1",
        row=row,
        params={"components": kept},
    )


def newton(steps: float) -> Hypothesis:
    """Newton-Schulz inversion of Sc from M_0 = a Sc, a = 2/(lambda_max^2 + lambda_min^2).

    M_{j+1} = 2 M_j - M_j Sc M_j leaves 1 - l m_j = (1 - a l^2)^(2^j) on an eigenvalue l, which is
    what is computed.
    """
    iterations = count("newton", "steps", steps, low=0)

    def multiplier(eigenvalues: Floats) -> Floats:
        strongest = eigenvalues[:, :1]
        present = np.where(eigenvalues > 0, eigenvalues, strongest)
        start = 2.0 * inverted(strongest**2 + present.min(axis=1, keepdims=True) ** 2)
        done = one_minus_power(start * eigenvalues**2, 2.0**iterations)
        return done * inverted(eigenvalues)

    return Hypothesis(
        name=written("newton", iterations),
        family="inverse" if iterations else "context-scaled",
        statement=f"{iterations} Newton-Schulz steps towards Sc^-1",
        source="2310.17086, section 4",
        row=lambda contexts: spectral_rows(contexts, multiplier),
        params={"steps": iterations},
    )
