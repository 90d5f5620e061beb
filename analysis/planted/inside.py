"""Heads that are columns of M0*, or sums of a few of them."""

import numpy as np

from analysis.planted.scene import Build, Scene

REPEATED = {
    "centred y times answer": "same as y times answer after centring",
    "-(y - answer)^2": "same as y times answer after centring",
    "diag(Sc)^-1": "same as the sum of the standardised dots; kept as a head of its own",
}


def column(name: str) -> Build:
    """The raw column of that name."""
    return lambda scene: scene.columns[name]


def random_places(scene: Scene) -> np.ndarray:
    """Every place reads the query with random weights of its own."""
    contexts = scene.contexts
    weights = scene.rng.standard_normal((contexts.x.shape[1], contexts.x.shape[2]))
    return np.asarray(contexts.queries @ weights.T)


def recency_times_query(scene: Scene) -> np.ndarray:
    """Later examples are scored by the size of the query."""
    queries = scene.contexts.queries
    recency = 0.8 ** np.arange(scene.shape[2] - 1, -1, -1.0)
    return np.asarray((queries**2).sum(axis=-1)[:, :, None] * recency)


def last_place_times_query(scene: Scene) -> np.ndarray:
    """Only the last example is scored, by the query's first feature."""
    last = np.eye(scene.shape[2])[-1]
    return np.asarray(scene.contexts.queries[:, :, :1] * last)


def random_metric(scene: Scene) -> np.ndarray:
    """q' A x_i with one random A for all contexts."""
    features = scene.contexts.x.shape[2]
    metric = scene.rng.standard_normal((features, features))
    return np.asarray(scene.contexts.queries @ metric @ scene.contexts.x.swapaxes(1, 2))


def log_gaussian(scene: Scene) -> np.ndarray:
    """-|q - x_i|^2, the score image of a Gaussian kernel of fixed width."""
    return np.asarray(-(scene.distance**2))


def heads(features: int) -> dict[str, Build]:
    """Every column of M0* but the places, and three heads made of places, two of metrics."""
    names = [
        "centred dot",
        "kernel, 1/3 medians",
        "kernel, 1 medians",
        "kernel, 3 medians",
        "kernel, fixed width",
        "laplace",
        "1-nearest",
        "3-nearest",
        "edit distance",
        *[f"equal first digit, x{j + 1}" for j in range(features)],
        *[f"first-digit distance, x{j + 1}" for j in range(features)],
        "cosine about the printed origin",
        "cosine about the mid-range",
        "cosine about the context mean",
        "cosine of (1, x)",
        *[f"standardised dot, x{j + 1}" for j in range(features)],
        "diag(Sc)^-1",
        "rank dot",
        "row-normalised dot",
        "dot / lambda_max",
        "Sc^+1",
        "y times answer",
        "kernel of y - answer",
    ]
    return {
        **{name: column(name) for name in names},
        "random metric": random_metric,
        "log-Gaussian kernel": log_gaussian,
        "random places x q": random_places,
        "recency x |q|^2": recency_times_query,
        "last place x q1": last_place_times_query,
    }
