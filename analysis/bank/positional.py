"""Rows that look at the place in the prompt only."""

import numpy as np

from analysis.bank.checks import share
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats

PLACE_ONLY = "2102.09690 (recency bias)"


def same_for_all_queries(contexts: ContextArrays, weights: Floats) -> Floats:
    """`weights` (N,) repeated over contexts and queries, (C, M, N)."""
    return np.broadcast_to(weights, (*contexts.queries.shape[:2], len(weights))).copy()


def decayed(examples: int, decay: float) -> Floats:
    """decay^(N - i) normalised to sum 1, (N,)."""
    weights = decay ** np.arange(examples - 1, -1, -1.0)
    return np.asarray(weights / weights.sum())


def uniform() -> Hypothesis:
    """The mean of the examples' y: 1/N each."""

    def row(contexts: ContextArrays) -> Floats:
        examples = contexts.x.shape[1]
        return same_for_all_queries(contexts, np.full(examples, 1.0 / examples))

    return Hypothesis(
        name="uniform",
        family="positional",
        statement="the mean of all examples",
        source="2208.01066, section 3 (averaging)",
        row=row,
    )


def last() -> Hypothesis:
    """The y of the example printed last."""

    def row(contexts: ContextArrays) -> Floats:
        return same_for_all_queries(contexts, np.eye(contexts.x.shape[1])[-1])

    return Hypothesis(
        name="last",
        family="positional",
        statement="the example printed last",
        source=PLACE_ONLY,
        row=row,
    )


def recency(decay: float) -> Hypothesis:
    """Weights decay^(N - i), normalised to sum 1 so that they predict a weighted mean."""
    rate = share("recency", "decay", decay)
    return Hypothesis(
        name=written("recency", rate),
        family="positional",
        statement=f"weights fall by {rate:g} for each example further back",
        source=PLACE_ONLY,
        row=lambda contexts: same_for_all_queries(contexts, decayed(contexts.x.shape[1], rate)),
        params={"decay": rate},
    )
