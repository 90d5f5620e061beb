"""Simulated contexts without text models: numbers, their numerals and a stand-in answer."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.content_columns import TINY, distances, gaussian, median_distance
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
    return _arrays([_context(design, rng) for _ in range(design.contexts)])


Drawn = tuple[Floats, Floats, Floats]


def _arrays(drawn: Sequence[Drawn]) -> ContextArrays:
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


def _context(design: SimulatedDesign, rng: np.random.Generator) -> Drawn:
    while True:
        rotation, variances = _axes(design, rng)
        points = rng.standard_normal((design.examples + design.queries, design.features))
        points = np.asarray(points * np.sqrt(variances) @ rotation.T)
        x, queries = points[: design.examples], points[design.examples :]
        y = _answers(x, rotation, variances, design, rng)(x)
        if max(np.abs(points).max(), np.abs(y).max()) <= RANGE_SD:
            return x, y, queries


def _twins(design: SimulatedDesign, probes: int, rng: np.random.Generator) -> tuple[Drawn, Drawn]:
    while True:
        rotation, variances = _axes(design, rng)
        points = rng.standard_normal((design.examples + design.queries, design.features))
        points = np.asarray(points * np.sqrt(variances) @ rotation.T)
        x, queries = points[: design.examples], points[design.examples :]
        other = x.copy()
        last = x[probes:, -1]
        other[probes:, -1] = np.sort(last)[::-1][last.argsort().argsort()]
        follow = _answers(x, rotation, variances, design, rng)
        y, other_y = follow(x), follow(other)
        if max(np.abs(part).max() for part in (points, y, other_y)) <= RANGE_SD:
            return (x, y, queries), (other, other_y, queries)


def _axes(design: SimulatedDesign, rng: np.random.Generator) -> tuple[Floats, Floats]:
    rotation = np.linalg.qr(rng.standard_normal((design.features, design.features)))[0]
    variances = np.geomspace(1.0, 1.0 / design.condition, design.features)
    return np.asarray(rotation), np.asarray(variances)


def _answers(
    x: Floats,
    rotation: Floats,
    variances: Floats,
    design: SimulatedDesign,
    rng: np.random.Generator,
) -> Callable[[Floats], Floats]:
    weights = rng.standard_normal(design.features)
    clean_sd = np.sqrt(((weights @ rotation) ** 2 * variances).sum())
    noise = design.noise * rng.standard_normal(len(x))
    shift = rng.uniform(-0.5, 0.5)
    scale = np.sqrt(1.0 + design.noise**2)
    return lambda points: (points @ weights / clean_sd + noise) / scale + shift


def simulate_pairs(
    design: SimulatedDesign, *, pairs: int = 32, probes: int = 10, rng: np.random.Generator
) -> tuple[ContextArrays, ContextArrays]:
    """Re-paired twin contexts A and B: the same probes first, then fillers.

    In B the last feature of the fillers is dealt out in reversed rank order, so that every
    numeral, mean and spread of x is the same and only the fillers' cross-product with that
    feature changes sign. y of the fillers follows from the same weights and noise.
    """
    drawn = [_twins(design, probes, rng) for _ in range(pairs)]
    first, second = zip(*drawn, strict=True)
    return _arrays(first), _arrays(second)


def simulate_replicate(
    contexts: ContextArrays, design: SimulatedDesign, *, rng: np.random.Generator
) -> tuple[ContextArrays, NDArray[np.int64]]:
    """The same x and queries with fresh weights, noise, y and order.

    Returns the contexts as printed and the order (C, N): the index in the main context of the
    example at each place.
    """
    count, examples, features = contexts.x.shape
    order = np.argsort(rng.random((count, examples)), axis=1)
    x = np.take_along_axis(contexts.x, order[:, :, None], axis=1)
    weights = rng.standard_normal((count, features))
    clean = np.einsum("cnp,cp->cn", x, weights)
    clean = clean / np.maximum(clean.std(axis=1, keepdims=True), TINY)
    y = (clean + design.noise * rng.standard_normal(clean.shape)) / np.sqrt(1 + design.noise**2)
    y = np.round(np.clip(y + rng.uniform(-0.5, 0.5, (count, 1)), -RANGE_SD, RANGE_SD) / RANGE_SD, 2)
    again = contexts._replace(
        x=x,
        y=y,
        x_text=np.take_along_axis(contexts.x_text, order[:, :, None], axis=1),
        answers=kernel_answers(x, y, contexts.queries),
    )
    return again, order
