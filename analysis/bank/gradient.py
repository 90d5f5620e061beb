"""Rows of gradient descent on the examples, in full batches."""

import numpy as np

from analysis.bank.checks import count, share
from analysis.bank.geometry import inverted, one_minus_power, spectral_rows
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import counted, written
from analysis.design import Floats

# Near the largest step at which the context with the largest eigenvalue still converges.
COMMON_STEP = 0.9
# 1/lambda_max: the first step settles the strongest direction of every context.
OWN_STEP = 0.5


def descent(eigenvalues: Floats, rate: Floats, steps: int) -> Floats:
    """(1 - (1 - rate l)^steps) / l, 0 where the eigenvalue l is 0."""
    return one_minus_power(rate * eigenvalues, float(steps)) * inverted(eigenvalues)


def gd(steps: float, step_size: float = COMMON_STEP) -> Hypothesis:
    """Gradient descent from w = 0 with one step size for all contexts.

    step_size: as a fraction of 2 / lambda_max, lambda_max the largest eigenvalue of Sc over all
    contexts given, so that no context diverges.
    """
    iterations = count("gd", "steps", steps, low=1)
    fraction = share("gd", "step size as a fraction of 2/lambda_max", step_size)

    def multiplier(eigenvalues: Floats) -> Floats:
        rate = 2.0 * fraction * inverted(eigenvalues.max(keepdims=True))
        return descent(eigenvalues, rate, iterations)

    shown = () if fraction == COMMON_STEP else (fraction,)
    return Hypothesis(
        name=written("gd", iterations, *shown),
        family="inverse" if iterations > 1 else "fixed metric",
        statement=f"{counted(iterations, 'gradient step')} from zero, "
        "one step size for all contexts",
        source="2212.07677, section 2; dual form 2202.05798",
        row=lambda contexts: spectral_rows(contexts, multiplier),
        params={"steps": iterations, "step_size": fraction},
    )


def gd_per_context(steps: float, step_size: float = OWN_STEP) -> Hypothesis:
    """Gradient descent from w = 0 with a step size from each context's own lambda_max."""
    iterations = count("gd_per_context", "steps", steps, low=1)
    fraction = share("gd_per_context", "step size as a fraction of 2/lambda_max", step_size)

    def multiplier(eigenvalues: Floats) -> Floats:
        rate = 2.0 * fraction * inverted(eigenvalues[:, :1])
        return descent(eigenvalues, np.broadcast_to(rate, eigenvalues.shape), iterations)

    shown = () if fraction == OWN_STEP else (fraction,)
    return Hypothesis(
        name=written("gd_per_context", iterations, *shown),
        family="inverse" if iterations > 1 else "context-scaled",
        statement=f"{counted(iterations, 'gradient step')} from zero, "
        "step size from each context's lambda_max",
        source="2212.07677, section 2",
        row=lambda contexts: spectral_rows(contexts, multiplier),
        params={"steps": iterations, "step_size": fraction},
    )
