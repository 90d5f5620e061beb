"""Whether runs answer alike: overlap of likely words, total variation, order sensitivity."""

from typing import NamedTuple

import numpy as np

from analysis.similarity.records import Floats, Runs

TOP = 10


def total_variation(a: Floats, b: Floats) -> float:
    """Half the sum of absolute differences of two next-token distributions; in [0, 1].

    `a`, `b`: log-probabilities (word,).
    """
    both = (np.exp(np.asarray(one, dtype=np.float64)) for one in (a, b))
    first, second = both
    return float(np.abs(first - second).sum() / 2)


def overlap(a: Floats, b: Floats, *, top: int = TOP) -> float:
    """Share of the `top` likeliest words that two distributions have in common; in [0, 1].

    Of equally likely words the one with the lower id comes first (2310.08540, section 4).
    """
    first, second = (set(likeliest(one, top)) for one in (a, b))
    return len(first & second) / top


def likeliest(logp: Floats, top: int) -> list[int]:
    """The ids of the likeliest words, likeliest first, ties by id."""
    if top > len(logp):
        raise ValueError(f"needed at most {len(logp)} words, as many as there are; came {top}")
    values = np.asarray(logp)
    least = np.partition(values, len(values) - top)[len(values) - top]
    candidates = np.flatnonzero(values >= least)
    order = np.argsort(-values[candidates], kind="stable")[:top]
    return [int(word) for word in candidates[order]]


def top_overlap(runs: Runs) -> Floats:
    """`overlap` of the ICL and FT runs, (1,)."""
    return np.array([overlap(runs.icl.next_logp, runs.ft.next_logp)])


def variation_icl_ft(runs: Runs) -> Floats:
    """`total_variation` of the ICL and FT runs, (1,)."""
    return np.array([total_variation(runs.icl.next_logp, runs.ft.next_logp)])


def variation_icl_zsl(runs: Runs) -> Floats:
    """`total_variation` of the ICL and ZSL runs, (1,): how far there is to go."""
    return np.array([total_variation(runs.icl.next_logp, runs.zsl.next_logp)])


class OrderSensitivity(NamedTuple):
    """How much the order of the demonstrations matters to one query.

    `total`: standard deviation over orders of each word's probability, summed over the vocabulary
    (2310.08540, section 4). `change`: mean over orders of |p - p_ZSL| summed over words.
    `per_change`: total over change; NaN where nothing changes.
    """

    total: float
    per_change: float
    change: float


def order_sensitivity(orders: Floats, zsl: Floats) -> OrderSensitivity:
    """Sensitivity of one query's next-token distribution to the order of the demonstrations.

    orders: log-probabilities (order, word), at least two; zsl: (word,).
    """
    if len(orders) < 2:
        raise ValueError(f"needed at least 2 orders of the demonstrations; came {len(orders)}")
    p, base = np.exp(np.asarray(orders, np.float64)), np.exp(np.asarray(zsl, np.float64))
    total = float(p.std(axis=0, ddof=1).sum())
    change = float(np.abs(p - base).sum(axis=1).mean())
    return OrderSensitivity(total, total / change if change > 0 else float("nan"), change)
