"""Simulated contexts without text models: numbers, their numerals and a stand-in answer."""

from typing import NamedTuple

import numpy as np

from analysis.content_columns import distances, gaussian, median_distance
from analysis.design import ContextArrays, Floats, Texts

RANGE_SD = 3.5
PRINTED_MIDDLE = 4.995
PRINTED_HALF = 4.995


class SimulatedDesign(NamedTuple):
    """What is drawn: the standing design of a verdict, without a model.

    contexts, examples, queries, features; condition: largest over smallest variance of x;
    noise: sd of y's noise against the unit sd of w'x.
    """

    contexts: int = 64
    examples: int = 20
    queries: int = 8
    features: int = 2
    condition: float = 100.0
    noise: float = 0.3


def simulate_contexts(design: SimulatedDesign, *, rng: np.random.Generator) -> ContextArrays:
    """Contexts printed as unsigned numerals 0.00 to 9.99, in codec coordinates.

    x ~ N(0, R diag(geomspace(1, 1/condition)) R') with a fresh rotation a context;
    y = w'x + b + noise, sd(y) = 1; a context in which any number leaves 3.5 sd is redrawn whole.
    The answer is the prediction of a kernel smoother at the context's median distance.
    """
    drawn = [_context(design, rng) for _ in range(design.contexts)]
    x, y, queries = (printed(np.stack(part)) for part in zip(*drawn, strict=True))
    z = [(values - PRINTED_MIDDLE) / PRINTED_HALF for values in (x, y, queries)]
    return ContextArrays(
        x=z[0],
        y=z[1],
        queries=z[2],
        x_text=numerals(x),
        query_text=numerals(queries),
        answers=kernel_answers(z[0], z[1], z[2]),
    )


def kernel_answers(x: Floats, y: Floats, queries: Floats) -> Floats:
    """Nadaraya-Watson predictions (C, M) at each context's median distance."""
    width = median_distance(x)[:, None, None]
    weights = gaussian(distances(queries, x), width)
    return np.asarray(np.einsum("cmn,cn->cm", weights, y))


def printed(values: Floats) -> Floats:
    """Values within 3.5 sd as the printed numbers 0.00 to 9.99."""
    return np.asarray(np.round(PRINTED_MIDDLE + PRINTED_HALF * values / RANGE_SD, 2))


def numerals(values: Floats) -> Texts:
    """Two fixed decimals, as text."""
    flat = [f"{value:.2f}" for value in values.ravel()]
    return np.array(flat, dtype=np.str_).reshape(values.shape)


def _context(design: SimulatedDesign, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    variances = np.geomspace(1.0, 1.0 / design.condition, design.features)
    while True:
        rotation = np.linalg.qr(rng.standard_normal((design.features, design.features)))[0]
        points = rng.standard_normal((design.examples + design.queries, design.features))
        points = points * np.sqrt(variances) @ rotation.T
        weights = rng.standard_normal(design.features)
        clean_sd = np.sqrt(((weights @ rotation) ** 2 * variances).sum())
        noise = rng.standard_normal(design.examples)
        y = points[: design.examples] @ weights / clean_sd + design.noise * noise
        y = y / np.sqrt(1.0 + design.noise**2) + rng.uniform(-0.5, 0.5)
        if max(np.abs(points).max(), np.abs(y).max()) <= RANGE_SD:
            return np.asarray(points[: design.examples]), y, np.asarray(points[design.examples :])
