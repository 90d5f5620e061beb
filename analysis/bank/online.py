"""Rows of learners that read the examples once, in order, with a state that each one changes."""

import numpy as np

from analysis.bank.checks import share
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats

DELTA_RULE = "2102.11174, section 4.2; 2308.06912; 2406.06484"
GATED = "2412.06464, section 3.1"
CHANNEL_GATED = "2510.26692, section 3"


def with_intercept(points: Floats) -> Floats:
    """x~ = (1, x), (..., P + 1)."""
    return np.concatenate([np.ones((*points.shape[:-1], 1)), points], axis=-1)


def read_back(keys: Floats, reads: Floats, *, step: float, gates: Floats | float = 1.0) -> Floats:
    """Weight of each example's value in what the state returns at `reads`, (C, M, N).

    The state S starts at zero; example by example S <- S Diag(gates), then
    S <- S - step (S k - v) k'. Unrolled from the last example backwards:
    u <- Diag(gates) (u - step (k' u) k), the weight of example i being step k_i' u.
    keys: (C, N, D); reads: (C, M, D); gates: a number or (D,).
    """
    weights = np.empty((*reads.shape[:2], keys.shape[1]))
    state = reads
    for place in range(keys.shape[1] - 1, -1, -1):
        key = keys[:, place, :, None]
        weights[:, :, place] = step * (state @ key)[:, :, 0]
        state = gates * (state - weights[:, :, place, None] * key.transpose(0, 2, 1))
    return weights


def online_gd(step_size: float) -> Hypothesis:
    """One pass of least mean squares on (1, x) from zero weights, first example first.

    step_size: as a fraction of 2 / max |(1, x)|^2 over all examples of all contexts.
    """
    fraction = share("online_gd", "step size as a fraction of 2/max|(1, x)|^2", step_size)

    def row(contexts: ContextArrays) -> Floats:
        keys = with_intercept(contexts.x)
        step = 2.0 * fraction / (keys**2).sum(axis=2).max()
        return read_back(keys, with_intercept(contexts.queries), step=float(step))

    return Hypothesis(
        name=written("online_gd", fraction),
        family="online",
        statement=f"one pass of least mean squares, step {fraction:g} x 2/max|(1, x)|^2",
        source="2102.11174, section 4.2 (the delta rule on keys as they are)",
        row=row,
        params={"step_size": fraction},
    )


def unit_keys(contexts: ContextArrays) -> tuple[Floats, Floats]:
    """Keys (1, x)/|(1, x)|, (C, N, P + 1), and the lengths |(1, x)|, (C, 1, N)."""
    keys = with_intercept(contexts.x)
    lengths = np.linalg.norm(keys, axis=2, keepdims=True)
    return keys / lengths, lengths.transpose(0, 2, 1)


def delta_rows(
    contexts: ContextArrays, *, step: float, gates: Floats | float = 1.0, unit_reads: bool = False
) -> Floats:
    """Rows of a delta rule on unit keys: values y/|x~| read at q~, or y read at q~/|q~|."""
    keys, lengths = unit_keys(contexts)
    reads = with_intercept(contexts.queries)
    if unit_reads:
        reads = reads / np.linalg.norm(reads, axis=2, keepdims=True)
        return read_back(keys, reads, step=step, gates=gates)
    return np.asarray(read_back(keys, reads, step=step, gates=gates) / lengths)


def delta_rule(step_size: float) -> Hypothesis:
    """The delta rule with keys (1, x)/|(1, x)|, values y/|(1, x)|, read at (1, q).

    This is normalised least mean squares, the limit of a causal linear stack.
    """
    beta = share("delta_rule", "step size", step_size, one=True)
    return Hypothesis(
        name=written("delta_rule", beta),
        family="online",
        statement=f"normalised least mean squares, step {beta:g}",
        source=DELTA_RULE,
        row=lambda contexts: delta_rows(contexts, step=beta),
        params={"step_size": beta},
    )


def delta_rule_unit(step_size: float) -> Hypothesis:
    """The delta rule with keys (1, x)/|(1, x)|, values y, read at (1, q)/|(1, q)|."""
    beta = share("delta_rule_unit", "step size", step_size, one=True)
    return Hypothesis(
        name=written("delta_rule_unit", beta),
        family="online",
        statement=f"delta rule on unit keys and unit queries, step {beta:g}",
        source=DELTA_RULE,
        row=lambda contexts: delta_rows(contexts, step=beta, unit_reads=True),
        params={"step_size": beta},
    )


def gated_delta(gate: float, step_size: float) -> Hypothesis:
    """The delta rule whose whole state is multiplied by `gate` before each example."""
    alpha = share("gated_delta", "gate", gate, one=True)
    beta = share("gated_delta", "step size", step_size, one=True)
    return Hypothesis(
        name=written("gated_delta", alpha, beta),
        family="online",
        statement=f"delta rule, step {beta:g}, state multiplied by {alpha:g} before each example",
        source=GATED,
        row=lambda contexts: delta_rows(contexts, step=beta, gates=alpha),
        params={"gate": alpha, "step_size": beta},
    )


def channel_gated_delta(slow: float, fast: float, step_size: float) -> Hypothesis:
    """The delta rule whose state has a gate for each channel of (1, x).

    Gates run evenly from `slow` (the intercept's channel) to `fast` (the last feature's): the
    paper learns them, the bank needs fixed ones.
    """
    first = share("channel_gated_delta", "first gate", slow, one=True)
    final = share("channel_gated_delta", "last gate", fast, one=True)
    beta = share("channel_gated_delta", "step size", step_size, one=True)

    def row(contexts: ContextArrays) -> Floats:
        gates = np.linspace(first, final, contexts.x.shape[2] + 1)
        return delta_rows(contexts, step=beta, gates=gates)

    return Hypothesis(
        name=written("channel_gated_delta", first, final, beta),
        family="online",
        statement=f"delta rule, step {beta:g}, a gate for each channel from {first:g} to {final:g}",
        source=CHANNEL_GATED,
        row=row,
        params={"slow": first, "fast": final, "step_size": beta},
    )
