"""M0*, version 1: every rival of S^-1 that a row is compared with before S^-1 may be named.

The set is frozen. A head that defeats the test is met by a new version with its number, never by
a silent edit of this one.
"""

from typing import NamedTuple

import numpy as np

from analysis.bank.geometry import geometry
from analysis.centring import centred_columns
from analysis.content_columns import (
    answer_columns,
    cosine_columns,
    kernel_columns,
    metric_columns,
    scaled_columns,
)
from analysis.design import ContextArrays, Floats
from analysis.numeral_columns import lexical_columns

VERSION = 1
BOUND_SD = 8.0


class Columns(NamedTuple):
    """Comparison columns of C contexts, centred over examples and queries, of unit sd.

    values: (C, M, N, K); names and families: K each.
    """

    values: Floats
    names: tuple[str, ...]
    families: tuple[str, ...]


def columns(contexts: ContextArrays) -> Columns:
    """The columns of M0*, each with its family.

    Each is centred over the examples and over the queries of its context, bounded at
    ``BOUND_SD`` standard deviations, and scaled to unit sd over the whole study.
    A column that is constant after centring stays 0.
    """
    by_family = raw_columns(contexts)
    raw = [column for family in by_family.values() for column in family.values()]
    names = tuple(name for family in by_family.values() for name in family)
    families = tuple(family for family, members in by_family.items() for _ in members)
    return Columns(prepared(np.stack(raw, axis=-1)), names, families)


def raw_columns(contexts: ContextArrays) -> dict[str, dict[str, Floats]]:
    """The columns as they are defined, (C, M, N) each, by family and name."""
    return {
        "positional": positional_columns(contexts),
        "fixed metric": metric_columns(contexts),
        "kernel": kernel_columns(contexts),
        "lexical": lexical_columns(contexts),
        "cosine": cosine_columns(contexts),
        "context-scaled": scaled_columns(contexts, geometry(contexts)),
        "y": answer_columns(contexts),
    }


def positional_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """One column for each place in the prompt times each of q and |q|^2."""
    examples = contexts.x.shape[1]
    squared = (contexts.queries**2).sum(axis=-1, keepdims=True)
    carried = np.concatenate([contexts.queries, squared], axis=-1)
    names = [f"q{j + 1}" for j in range(contexts.x.shape[2])] + ["|q|^2"]
    found: dict[str, Floats] = {}
    for place in range(examples):
        here = np.zeros(examples)
        here[place] = 1.0
        for j, name in enumerate(names):
            found[f"place {place + 1} x {name}"] = carried[:, :, None, j] * here
    return found


def prepared(raw: Floats) -> Floats:
    """Centre, bound and scale raw columns (C, M, N, K)."""
    centred = centred_columns(raw)
    scale = unit_scale(centred)
    bounded = np.clip(centred / scale, -BOUND_SD, BOUND_SD)
    again = centred_columns(bounded)
    return again / unit_scale(again)


def unit_scale(values: Floats) -> Floats:
    """Root mean square of each column (K,); 1 for a column of zeros."""
    size = np.sqrt((values**2).mean(axis=(0, 1, 2)))
    largest = np.abs(values).max(axis=(0, 1, 2))
    return np.where(largest > 1e-12, size, 1.0)
