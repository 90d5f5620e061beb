"""Target functions: what ties y to x in a synthetic context."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.refusal import unknown_name

Points = NDArray[np.float64]
Function = Callable[[Points], NDArray[np.float64]]


class Target(NamedTuple):
    """A family of functions of x (n, P) -> (n,), drawn fresh for every context.

    `outlier_share` is the chance with which an example's y (never a query's) is moved by
    `OUTLIER_SHIFT` standard deviations of y, up or down.
    """

    draw: Callable[[np.random.Generator, int], Function]
    outlier_share: float = 0.0


OUTLIER_SHIFT = 2.0


def _linear(rng: np.random.Generator, features: int) -> Function:
    slope = rng.standard_normal(features)
    return lambda x: x @ slope


def _quadratic(rng: np.random.Generator, features: int) -> Function:
    slope = rng.standard_normal(features)
    return lambda x: (x**2) @ slope


def _sinusoid(rng: np.random.Generator, features: int) -> Function:
    """sin(2 u'x + phase) along a random direction u of unit length."""
    direction = rng.standard_normal(features)
    direction /= np.linalg.norm(direction)
    phase = rng.uniform(0, 2 * np.pi)
    return lambda x: np.sin(2 * (x @ direction) + phase)


def _tree(rng: np.random.Generator, features: int) -> Function:
    """Depth 2: two tests of a random feature against 0, then one of four normal leaf values."""
    first = int(rng.integers(features))
    second = rng.integers(features, size=2)
    leaves = rng.standard_normal((2, 2))

    def tree(x: Points) -> NDArray[np.float64]:
        side = (x[:, first] > 0).astype(int)
        below = (x[np.arange(len(x)), second[side]] > 0).astype(int)
        return np.asarray(leaves[side, below])

    return tree


def _network(rng: np.random.Generator, features: int) -> Function:
    """100 rectified units with normal weights and a normal read-out, without biases."""
    hidden = rng.standard_normal((features, 100))
    readout = rng.standard_normal(100)
    return lambda x: np.asarray(np.maximum(x @ hidden, 0) @ readout)


# After Garg et al., arXiv 2208.01066, section 3.1 and appendix A, at depth 2 instead of 4;
# outliers and the sinusoid are ours.
FUNCTIONS: Mapping[str, Target] = MappingProxyType(
    {
        "linear": Target(_linear),
        "linear-outliers": Target(_linear, outlier_share=0.1),
        "quadratic": Target(_quadratic),
        "sinusoid": Target(_sinusoid),
        "tree": Target(_tree),
        "network": Target(_network),
    }
)


def target_named(name: str) -> Target:
    """The family of target functions of that name; refuses an unknown one."""
    if name not in FUNCTIONS:
        raise unknown_name("target function", name, FUNCTIONS)
    return FUNCTIONS[name]


def standardised(function: Function, root: Points, rng: np.random.Generator) -> Function:
    """The function shifted and scaled to mean 0 and sd 1 over the context's population of x.

    The population is x = root @ z with normal z; it is met by 2,048 draws that are whitened
    exactly, so a linear function comes out with sd 1 to rounding. A function that is constant
    over the population (a tree with equal leaves) is only shifted.
    """
    draws = rng.standard_normal((2048, len(root)))
    draws -= draws.mean(axis=0)
    whitener = np.linalg.inv(np.linalg.cholesky(draws.T @ draws / len(draws))).T
    values = function(draws @ whitener @ root.T)
    mean, spread = float(values.mean()), float(values.std())
    scale = 1 / spread if spread > 0 else 1.0
    return lambda x: (function(x) - mean) * scale
