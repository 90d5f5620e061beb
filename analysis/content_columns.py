"""Columns that look at the numbers of a query and an example: dots, kernels, cosines, y-rivals."""

import numpy as np

from analysis.bank.geometry import Geometry, centred
from analysis.design import ContextArrays, Floats

TINY = 1e-12


def distances(queries: Floats, x: Floats) -> Floats:
    """Euclidean distances (..., M, N) between queries (..., M, P) and examples (..., N, P)."""
    return np.asarray(np.linalg.norm(queries[..., :, None, :] - x[..., None, :, :], axis=-1))


def median_distance(x: Floats) -> Floats:
    """Median distance between two examples of a context, (C,); 1 where there is only one."""
    if x.shape[-2] < 2:
        return np.ones(x.shape[:-2])
    first, second = np.triu_indices(x.shape[-2], k=1)
    apart = np.linalg.norm(x[..., first, :] - x[..., second, :], axis=-1)
    return np.asarray(np.maximum(np.median(apart, axis=-1), TINY))


def normalised(weights: Floats) -> Floats:
    """Weights divided by their sum over the examples (Nadaraya-Watson)."""
    return np.asarray(weights / np.maximum(weights.sum(axis=-1, keepdims=True), TINY))


def gaussian(distance: Floats, width: Floats | float) -> Floats:
    """Gaussian kernel weights that sum to 1 over the examples; width is the kernel's sd."""
    exponent = -0.5 * (distance / width) ** 2
    return normalised(np.exp(exponent - exponent.max(axis=-1, keepdims=True)))


def laplace(distance: Floats, width: Floats | float) -> Floats:
    """Laplace kernel weights that sum to 1 over the examples."""
    exponent = -distance / width
    return normalised(np.exp(exponent - exponent.max(axis=-1, keepdims=True)))


def nearest(distance: Floats, count: int) -> Floats:
    """1/count on the count nearest examples, 0 elsewhere; ties go to the earlier example."""
    order = np.argsort(np.argsort(distance, axis=-1, kind="stable"), axis=-1)
    return (order < count) / count


def cosine(a: Floats, b: Floats) -> Floats:
    """Cosine between queries (..., M, P) and examples (..., N, P); 0 for a zero vector."""
    unit_a = a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), TINY)
    unit_b = b / np.maximum(np.linalg.norm(b, axis=-1, keepdims=True), TINY)
    return np.asarray(unit_a @ unit_b.swapaxes(-1, -2))


def centred_ranks(values: Floats, among: Floats) -> Floats:
    """Share of `among` (C, N, P) below each value (C, K, P) less one half; ties count half."""
    difference = values[:, :, None, :] - among[:, None, :, :]
    return np.asarray(0.5 * np.sign(difference).mean(axis=2))


def with_ones(values: Floats) -> Floats:
    """(1, x) for each x."""
    return np.concatenate([np.ones_like(values[..., :1]), values], axis=-1)


def kernel_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """Nadaraya-Watson rows at context widths and at one fixed width, and nearest neighbours."""
    distance = distances(contexts.queries, contexts.x)
    median = median_distance(contexts.x)
    width = median[:, None, None]
    columns = {
        f"kernel, {name} medians": gaussian(distance, factor * width)
        for name, factor in (("1/3", 1 / 3), ("1", 1.0), ("3", 3.0))
    }
    columns["kernel, fixed width"] = gaussian(distance, float(np.median(median)))
    columns["laplace"] = laplace(distance, width)
    columns["1-nearest"] = nearest(distance, 1)
    columns["3-nearest"] = nearest(distance, min(3, contexts.x.shape[1]))
    return columns


def dot_product(contexts: ContextArrays) -> Floats:
    """(q - mean)'(x_i - mean), (C, M, N)."""
    query, x = centred(contexts)
    return query @ x.swapaxes(1, 2)


def metric_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """Every q_j x_k, and the centred dot product."""
    features = contexts.x.shape[2]
    columns = {
        f"q{j + 1} x{k + 1}": contexts.queries[:, :, None, j] * contexts.x[:, None, :, k]
        for j in range(features)
        for k in range(features)
    }
    columns["centred dot"] = dot_product(contexts)
    return columns


def cosine_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """Cosines about the printed origin, the mid-range and the context mean, and of (1, x)."""
    printed_query = contexts.query_text.astype(np.float64)
    printed_x = contexts.x_text.astype(np.float64)
    return {
        "cosine about the printed origin": cosine(printed_query, printed_x),
        "cosine about the mid-range": cosine(contexts.queries, contexts.x),
        "cosine about the context mean": cosine(*centred(contexts)),
        "cosine of (1, x)": cosine(with_ones(contexts.queries), with_ones(contexts.x)),
    }


def scaled_columns(contexts: ContextArrays, shape: Geometry) -> dict[str, Floats]:
    """Dot products scaled by the context: all but the full inverse of its scatter."""
    dot = dot_product(contexts)
    query, x = centred(contexts)
    scatter = x.swapaxes(1, 2) @ x
    spread = np.sqrt(np.maximum((x**2).sum(axis=1, keepdims=True), TINY))
    columns = {
        f"standardised dot, x{j + 1}": (query / spread)[:, :, None, j] * (x / spread)[:, None, :, j]
        for j in range(x.shape[2])
    }
    ranks_query = centred_ranks(contexts.queries, contexts.x)
    ranks_x = centred_ranks(contexts.x, contexts.x)
    largest = np.maximum(shape.eigenvalues[:, 0], TINY)[:, None, None]
    columns["diag(Sc)^-1"] = (query / spread**2) @ x.swapaxes(1, 2)
    columns["rank dot"] = ranks_query @ ranks_x.swapaxes(1, 2)
    columns["row-normalised dot"] = dot / np.maximum(
        np.linalg.norm(dot, axis=-1, keepdims=True), TINY
    )
    columns["dot / lambda_max"] = dot / largest
    columns["Sc^+1"] = query @ scatter @ x.swapaxes(1, 2)
    return columns


def answer_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """Rivals that compare each y with the model's own answer (the mean of y where unread)."""
    y = contexts.y[:, None, :]
    mean = y.mean(axis=-1, keepdims=True)
    answer = contexts.answers[:, :, None]
    answer = np.where(np.isfinite(answer), answer, mean)
    width = median_distance(contexts.y[:, :, None])[:, None, None]
    return {
        "y times answer": y * answer,
        "centred y times answer": (y - mean) * (answer - mean),
        "-(y - answer)^2": -((y - answer) ** 2),
        "kernel of y - answer": gaussian(np.abs(y - answer), width),
    }
