"""Sign flips of whole contexts: p values that hold over all rows and hypotheses at once."""

import numpy as np

from analysis.design import Floats


def flip_signs(contexts: int, flips: int, *, rng: np.random.Generator) -> Floats:
    """Sign vectors (B, C); every one of the 2^C where that is no more than `flips`.

    The first is always all +1, the signs that were observed.
    """
    if contexts < 31 and 2**contexts <= flips:
        bits = np.arange(2**contexts)[:, None] >> np.arange(contexts)[None, :]
        return np.asarray(1.0 - 2.0 * (bits & 1), dtype=np.float64)
    drawn = rng.integers(0, 2, size=(flips, contexts))
    return np.concatenate([np.ones((1, contexts)), 1.0 - 2.0 * drawn])


def t_statistic(values: Floats, signs: Floats | None = None) -> Floats:
    """Mean over standard error of values (C, ...) over contexts; -inf where it is undefined.

    With signs (B, C): one statistic for each sign vector, (B, ...).
    """
    contexts = values.shape[0]
    flat = values.reshape(contexts, -1)
    weights = np.ones((1, contexts)) if signs is None else signs
    mean = weights @ flat / contexts
    variance = np.maximum((flat**2).mean(axis=0) - mean**2, 0.0) / max(contexts - 1, 1)
    defined = variance > 1e-300
    statistic = np.where(
        defined,
        mean / np.sqrt(np.where(defined, variance, 1.0)),
        np.where(mean > 0, np.inf, -np.inf),
    )
    statistic = np.where(np.isnan(mean), -np.inf, statistic)
    return statistic[0].reshape(values.shape[1:]) if signs is None else statistic


def max_t_null(values: Floats, signs: Floats) -> Floats:
    """The largest statistic over all rows under each sign vector, (B,)."""
    if values.size == 0:
        return np.full(len(signs), -np.inf)
    flat = values.reshape(values.shape[0], -1)
    largest = np.full(len(signs), -np.inf)
    for start in range(0, len(signs), 256):
        block = slice(start, start + 256)
        largest[block] = t_statistic(flat, signs[block]).max(axis=1)
    return largest


def corrected_p(statistic: Floats, null: Floats) -> Floats:
    """Share of sign vectors, the observed one among them, whose largest statistic is as large."""
    order = np.sort(null)
    tolerance = 1e-9 * np.maximum(np.abs(statistic), 1.0)
    below = np.searchsorted(order, statistic - np.where(np.isfinite(statistic), tolerance, 0.0))
    return (len(order) - below) / len(order)


def critical_value(null: Floats, level: float) -> float:
    """Statistics above this have a corrected p of at most `level`; infinite where none has."""
    order = np.sort(null)
    allowed = int(level * len(order) + 1e-9)
    return float(order[-allowed - 1]) if allowed else float("inf")
