"""Heads outside M0* that compare numbers: ranks, norms, kernels, one feature, other products."""

from collections.abc import Callable

import numpy as np

from analysis.bank import hypothesis_named, rows
from analysis.content_columns import TINY, gaussian, nearest, normalised
from analysis.design import Floats
from analysis.planted.scene import Build, Scene, standardised


def banked(name: str) -> Build:
    """The row of a hypothesis of the bank."""
    return lambda scene: rows(hypothesis_named(name), scene.contexts)


def softmaxed(row: Callable[[Scene], Floats], sharpness: float) -> Build:
    """softmax of a row scaled to `sharpness` standard deviations."""

    def build(scene: Scene) -> Floats:
        logits = sharpness * standardised(row(scene))
        return normalised(np.exp(logits - logits.max(axis=-1, keepdims=True)))

    return build


def one_feature(j: int, compare: Callable[[Floats, Floats], Floats]) -> Build:
    """A comparison of one feature only: compare(query value, example value)."""

    def build(scene: Scene) -> Floats:
        contexts = scene.contexts
        return compare(contexts.queries[:, :, None, j], contexts.x[:, None, :, j])

    return build


def norm(values: Floats) -> Floats:
    """Euclidean length over the last axis, never 0."""
    return np.asarray(np.maximum(np.linalg.norm(values, axis=-1), TINY))


def ranks() -> dict[str, Build]:
    """Heads that look at the order of the examples, not at their sizes."""

    def apart(scene: Scene) -> Floats:
        query, x = scene.ranks
        return np.asarray(np.abs(query[:, :, None] - x[:, None]))

    def rank_within_row(scene: Scene) -> Floats:
        order = scene.dot.argsort(axis=-1).argsort(axis=-1)
        return order.astype(np.float64)

    return {
        "rank distance": lambda scene: -apart(scene).sum(axis=-1),
        "squared rank distance": lambda scene: -(apart(scene) ** 2).sum(axis=-1),
        "largest rank distance": lambda scene: -apart(scene).max(axis=-1),
        "kernel of rank distance": lambda scene: np.exp(-4.0 * apart(scene).sum(axis=-1)),
        "rank of the dot": rank_within_row,
        "rank of the distance": lambda scene: (
            -(scene.distance.argsort(axis=-1).argsort(axis=-1).astype(np.float64))
        ),
    }


def norms() -> dict[str, Build]:
    """Dot products divided by another size than M0* knows."""
    return {
        "L1 row norm": lambda s: s.dot / np.maximum(np.abs(s.dot).sum(-1, keepdims=True), TINY),
        "largest-entry row norm": lambda s: (
            s.dot / np.maximum(np.abs(s.dot).max(-1, keepdims=True), TINY)
        ),
        "half cosine over |q|": lambda s: s.dot / norm(s.query)[:, :, None],
        "half cosine over |x|": lambda s: s.dot / norm(s.x)[:, None, :],
        "half cosine over |q|, mid-range": lambda s: (
            s.contexts.queries @ s.contexts.x.swapaxes(1, 2) / norm(s.contexts.queries)[:, :, None]
        ),
        "half cosine over |x|, mid-range": lambda s: (
            s.contexts.queries @ s.contexts.x.swapaxes(1, 2) / norm(s.contexts.x)[:, None, :]
        ),
        "dot / trace": lambda s: s.dot / (s.x**2).sum(axis=(1, 2))[:, None, None],
        "dot / median distance": lambda s: s.dot / s.median,
        "dot / |x|^2": lambda s: s.dot / (norm(s.x) ** 2)[:, None, :],
        "dot / largest |x|": lambda s: s.dot / norm(s.x).max(axis=1)[:, None, None],
        "sign of the dot": lambda s: np.sign(s.dot),
        "root of the dot": lambda s: np.sign(s.dot) * np.sqrt(np.abs(s.dot)),
        "squared dot": lambda s: s.dot**2,
        "cubed dot": lambda s: s.dot**3,
        "tanh of the standardised dot": lambda s: np.tanh(2.0 * standardised(s.dot)),
        "relu of the dot": lambda s: np.maximum(s.dot, 0.0),
        "angle": lambda s: (
            -np.arccos(
                np.clip(s.dot / norm(s.query)[:, :, None] / norm(s.x)[:, None, :], -1.0, 1.0)
            )
        ),
    }


def kernels() -> dict[str, Build]:
    """Similarities that fall with distance in other ways than M0*'s."""

    def manhattan(scene: Scene) -> Floats:
        contexts = scene.contexts
        return np.asarray(np.abs(contexts.queries[:, :, None] - contexts.x[:, None]).sum(axis=-1))

    def chebyshev(scene: Scene) -> Floats:
        contexts = scene.contexts
        return np.asarray(np.abs(contexts.queries[:, :, None] - contexts.x[:, None]).max(axis=-1))

    def scaled_distance(scene: Scene) -> Floats:
        spread = scene.x.std(axis=1)[:, None, None]
        apart = (scene.query[:, :, None] - scene.x[:, None]) / np.maximum(spread, TINY)
        return np.asarray(np.linalg.norm(apart, axis=-1))

    return {
        "distance": lambda s: -s.distance,
        "log distance": lambda s: -np.log(s.distance + 0.05),
        "inverse distance": lambda s: normalised(1.0 / (s.distance + 0.05)),
        "Cauchy kernel": lambda s: 1.0 / (1.0 + (s.distance / s.median) ** 2),
        "Epanechnikov kernel": lambda s: np.maximum(1.0 - (s.distance / s.median) ** 2, 0.0),
        "unnormalised kernel": lambda s: np.exp(-0.5 * (s.distance / s.median) ** 2),
        "narrow kernel": lambda s: gaussian(s.distance, 0.15 * s.median),
        "Manhattan distance": lambda s: -manhattan(s),
        "Chebyshev distance": lambda s: -chebyshev(s),
        "Manhattan kernel": lambda s: normalised(np.exp(-manhattan(s) / s.median)),
        "standardised distance": lambda s: -scaled_distance(s),
        "standardised kernel": lambda s: gaussian(scaled_distance(s), 1.0),
        "standardised nearest": lambda s: nearest(scaled_distance(s), 1),
        "2-nearest": lambda s: nearest(s.distance, 2),
        "5-nearest": lambda s: nearest(s.distance, 5),
        "farthest": lambda s: nearest(-s.distance, 1),
        "within a median": lambda s: (s.distance < s.median).astype(np.float64),
    }


def features() -> dict[str, Build]:
    """Heads that read one feature only, by the first and the last feature."""
    found: dict[str, Build] = {}
    for name, j in (("x1", 0), ("last x", -1)):
        found[f"{name}: absolute difference"] = one_feature(j, lambda q, x: -np.abs(q - x))
        found[f"{name}: kernel"] = one_feature(j, lambda q, x: np.exp(-((q - x) ** 2) / 0.02))
        found[f"{name}: nearest"] = one_feature(j, lambda q, x: nearest(np.abs(q - x), 1))
        found[f"{name}: same sign"] = one_feature(j, lambda q, x: np.sign(q * x))
        found[f"{name}: greater"] = one_feature(j, lambda q, x: np.sign(q - x))
        found[f"{name}: standardised rank"] = _one_rank(j)
    found["last example's own size"] = lambda s: norm(s.query)[:, :, None] * norm(s.x)[:, None, :]
    found["sizes alike"] = lambda s: -np.abs(norm(s.query)[:, :, None] - norm(s.x)[:, None, :])
    return found


def _one_rank(j: int) -> Build:
    def build(scene: Scene) -> Floats:
        query, x = scene.ranks
        return np.asarray(query[:, :, None, j] * x[:, None, :, j])

    return build


BANKED = (
    "pcr(1)",
    "gd(1)",
    "gd_per_context(1)",
    "newton(1)",
    "newton(4)",
    "diagonal",
    "gd_metric(pooled)",
    "momentum(0.8)",
    "online_gd(0.1)",
    "online_gd(0.5)",
    "online_gd(0.9)",
    "delta_rule(0.3)",
    "delta_rule(1)",
    "delta_rule_unit(0.3)",
    "delta_rule_unit(1)",
    "gated_delta(0.9,0.3)",
    "gated_delta(0.9,1)",
    "channel_gated_delta(0.99,0.8,0.3)",
    "kernel_ridge(1,1)",
    "local_linear(1/3,0.01)",
)


def softmaxes() -> dict[str, Build]:
    """Softmaxes of dot products, distances and cosines."""
    return {
        "softmaxed dot, 0.5 sd": softmaxed(lambda s: s.dot, 0.5),
        "softmaxed dot, 1 sd": softmaxed(lambda s: s.dot, 1.0),
        "softmaxed dot, 3 sd": softmaxed(lambda s: s.dot, 3.0),
        "softmaxed distance, 2 sd": softmaxed(lambda s: -s.distance, 2.0),
        "softmaxed cosine, 2 sd": softmaxed(
            lambda s: s.columns["cosine about the context mean"], 2.0
        ),
    }
