"""Heads outside M0*: place times content, mixtures, answers, and random networks."""

from collections.abc import Callable

import numpy as np

from analysis.design import Floats
from analysis.planted.scene import Build, Scene, standardised


def placed(weights: Callable[[int], Floats], content: Callable[[Scene], Floats]) -> Build:
    """A row multiplied by a weight of each place."""
    return lambda scene: content(scene) * weights(scene.shape[2])


def recency(examples: int) -> Floats:
    """0.8 for each example further back."""
    return np.asarray(0.8 ** np.arange(examples - 1, -1, -1.0))


def second_half(examples: int) -> Floats:
    """1 for the later half of the examples."""
    return (np.arange(examples) >= examples // 2).astype(np.float64)


def alternating(examples: int) -> Floats:
    """+1, -1, +1, ..."""
    return np.asarray((-1.0) ** np.arange(examples))


def col(name: str) -> Callable[[Scene], Floats]:
    """A column of M0*."""
    return lambda scene: scene.columns[name]


def mixture(*parts: tuple[float, Callable[[Scene], Floats]]) -> Build:
    """A weighted sum of rows of unit sd."""

    def build(scene: Scene) -> Floats:
        return np.asarray(sum(weight * standardised(part(scene)) for weight, part in parts))

    return build


def positions() -> dict[str, Build]:
    """Place times content."""
    return {
        "recency x dot": placed(recency, lambda s: s.dot),
        "recency x distance": placed(recency, lambda s: -s.distance),
        "recency x kernel": placed(recency, col("kernel, 1 medians")),
        "recency x cosine": placed(recency, col("cosine about the context mean")),
        "later half x dot": placed(second_half, lambda s: s.dot),
        "later half x edit distance": placed(second_half, col("edit distance")),
        "alternating dot": placed(alternating, lambda s: s.dot),
        "places x dot": lambda s: s.dot * s.rng.standard_normal(s.shape[2]),
    }


def mixtures() -> dict[str, Build]:
    """Sums of two or three mechanisms."""
    return {
        "kernel + edit distance": mixture(
            (0.5, col("kernel, 1 medians")), (0.5, col("edit distance"))
        ),
        "dot + 1-nearest": mixture((0.5, lambda s: s.dot), (0.5, col("1-nearest"))),
        "cosine + distance": mixture(
            (0.5, col("cosine about the context mean")), (0.5, lambda s: -s.distance)
        ),
        "rank dot + dot": mixture((0.5, col("rank dot")), (0.5, lambda s: s.dot)),
        "standardised dot - dot": mixture((1.0, col("diag(Sc)^-1")), (-0.5, lambda s: s.dot)),
        "row norm + kernel": mixture(
            (0.6, col("row-normalised dot")), (0.4, col("kernel, 1/3 medians"))
        ),
        "dot + y": mixture((0.6, lambda s: s.dot), (0.4, col("y times answer"))),
        "places + distance + digits": mixture(
            (0.4, lambda s: s.dot * s.rng.standard_normal(s.shape[2])),
            (0.4, lambda s: -s.distance),
            (0.2, col("equal first digit, x1")),
        ),
    }


def answers() -> dict[str, Build]:
    """Heads that read y."""

    def gap(scene: Scene) -> Floats:
        return np.asarray(scene.contexts.y[:, None] - scene.contexts.answers[:, :, None])

    return {
        "y difference": lambda s: -np.abs(gap(s)),
        "y sign": lambda s: np.sign(s.contexts.y[:, None] * s.contexts.answers[:, :, None]),
        "y x dot": lambda s: s.contexts.y[:, None] * s.dot,
        "|y| x |q|": lambda s: (
            np.abs(s.contexts.y)[:, None] * np.linalg.norm(s.query, axis=-1)[:, :, None]
        ),
        "y x q1": lambda s: s.contexts.y[:, None] * s.contexts.queries[:, :, :1],
    }


def network(
    inputs: Callable[[Scene], Floats], *, width: int = 32, rectified: bool = False
) -> Build:
    """A random two-layer network over what it is shown for each (query, example)."""

    def build(scene: Scene) -> Floats:
        shown = inputs(scene)
        flat = shown / np.maximum(shown.std(axis=(0, 1, 2)), 1e-12)
        first = scene.rng.standard_normal((flat.shape[-1], width)) * 1.5 / flat.shape[-1] ** 0.5
        hidden = flat @ first + scene.rng.standard_normal(width)
        active = np.maximum(hidden, 0.0) if rectified else np.tanh(hidden)
        return np.asarray(active @ scene.rng.standard_normal(width) / width**0.5)

    return build


def both(scene: Scene) -> Floats:
    """(q, x_i), (C, M, N, 2P)."""
    contexts = scene.contexts
    return stacked(scene, contexts.queries[:, :, None], contexts.x[:, None])


def centred_both(scene: Scene) -> Floats:
    """(q, x_i) about the context's mean in units of its spread."""
    spread = np.maximum(scene.x.std(axis=1), 1e-12)
    return stacked(
        scene, (scene.query / spread[:, None])[:, :, None], (scene.x / spread[:, None])[:, None]
    )


def with_place(scene: Scene) -> Floats:
    """(q, x_i, place)."""
    place = np.arange(scene.shape[2])[:, None] / scene.shape[2]
    return stacked(scene, both(scene), place)


def with_y(scene: Scene) -> Floats:
    """(q, x_i, y_i)."""
    return stacked(scene, both(scene), scene.contexts.y[:, None, :, None])


def summaries(scene: Scene) -> Floats:
    """(dot, distance)."""
    return np.stack([scene.dot, scene.distance], axis=-1)


def stacked(scene: Scene, *parts: Floats) -> Floats:
    """Parts broadcast over contexts, queries and examples and joined on the last axis."""
    whole = [np.broadcast_to(part, (*scene.shape, part.shape[-1])) for part in parts]
    return np.concatenate(whole, axis=-1)


def feature_product(scene: Scene) -> Floats:
    """phi(q)' phi(x_i) with random tanh features."""
    contexts = scene.contexts
    first = scene.rng.standard_normal((contexts.x.shape[2], 16)) * 3.0
    shift = scene.rng.standard_normal(16)
    query, x = (np.tanh(part @ first + shift) for part in (contexts.queries, contexts.x))
    return np.asarray(query @ x.swapaxes(1, 2))


def networks() -> dict[str, Build]:
    """Random networks, new weights in each run."""
    return {
        "network of (q, x)": network(both),
        "network of (q, x), rectified": network(both, rectified=True),
        "network of (q, x), wide": network(both, width=128),
        "network of (q, x, place)": network(with_place),
        "network of (q, x, y)": network(with_y),
        "network of (q, x), context units": network(centred_both),
        "network of (q, x), context units, rectified": network(centred_both, rectified=True),
        "network of (dot, distance)": network(summaries),
        "network features' product": feature_product,
    }
