"""Kendall's tau between attention to demonstration tokens and the weights of their dual form."""

import numpy as np
from scipy import stats

from analysis.similarity.records import Floats, Integers, Learning, Record

LEAST_TOKENS = 2
TIE = 1e-6
"""Weights that differ by less than this share of the largest one are tied. In the first layer equal
words have equal queries and inputs, and only rounding would order them."""


def attended(icl: Record, learning: Learning) -> Floats:
    """m_ICL (layer, token): the query's scores over the demonstration tokens, summed over heads.

    q_h . k_{j,h} / sqrt(d) as attention used them (2212.10559, section 4.3).
    """
    if icl.earlier is None:
        raise ValueError("needed a run with demonstrations before the query; came one without")
    return np.asarray(icl.earlier[:, :, learning.shown].astype(np.float64).sum(axis=1))


def learnt_by_queries(ft: Record, learning: Learning) -> Floats:
    """m_FT (layer, token): sum over heads of q'_{j,h} . q_h / d, queries before rotation.

    q' is what each demonstration token asked before the step it caused, q what the query asks of
    the fine-tuned model: the dual form of a step on the key projection (2212.10559; 2202.05798).
    """
    size = learning.queries.shape[-1]
    return np.asarray(
        np.einsum("ljhd,lhd->lj", learning.queries, ft.query, dtype=np.float64) / size
    )


def learnt_by_inputs(ft: Record, learning: Learning) -> Floats:
    """m_FT (layer, token) from the layer's inputs, x'_j . x / width: a linear layer's dual form.

    (2202.05798, section 2: a trained layer attends to its training inputs.)
    """
    width = learning.inputs.shape[-1]
    return np.asarray(np.einsum("ljw,lw->lj", learning.inputs, ft.inputs, dtype=np.float64) / width)


def kendall(m_icl: Floats, m_ft: Floats) -> Floats:
    """Kendall's tau-b over demonstration tokens, by layer; in [-1, 1].

    NaN where either side is constant, or with fewer than two tokens.
    """
    sides = (stepped(m) for m in (m_icl, m_ft))
    return np.array([tau_b(a, b) for a, b in zip(*sides, strict=True)])


def stepped(m: Floats) -> Floats:
    """Weights (layer, token) as whole steps of `TIE` of the layer's largest, so that ties tie."""
    wide = np.asarray(m, dtype=np.float64)
    known = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    largest = known.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(np.round(wide / np.where(largest > 0, largest * TIE, 1.0)))


def tau_b(a: Floats, b: Floats) -> float:
    """Kendall's tau-b of two sequences; NaN values are left out in pairs."""
    known = np.isfinite(a) & np.isfinite(b)
    if known.sum() < LEAST_TOKENS or np.ptp(a[known]) == 0 or np.ptp(b[known]) == 0:
        return float("nan")
    return float(stats.kendalltau(a[known], b[known]).statistic)


def by_demonstration(m: Floats, demonstration: Integers) -> Floats:
    """Weights (layer, token) summed over each demonstration's tokens, (layer, demonstration)."""
    groups = demonstration == np.unique(demonstration)[:, None]
    return np.asarray(m @ groups.T)


def within_identity(m_icl: Floats, m_ft: Floats, ids: Integers) -> Floats:
    """tau-b among tokens that are the same word, by layer: mean over words, weighted by pairs.

    Two models that only rank words alike score 0 here. NaN where no word stands twice.
    """
    earlier, later, starts = _pairs_of_a_word(ids)
    if not len(earlier):
        return np.full(len(m_icl), np.nan)
    sides = (stepped(m) for m in (m_icl, m_ft))
    a, b = (np.sign(m[:, earlier] - m[:, later]) for m in sides)
    agree, differ_a, differ_b = (
        np.add.reduceat(np.nan_to_num(part), starts, axis=1) for part in (a * b, a * a, b * b)
    )
    size = np.sqrt(differ_a * differ_b)
    known = size > 0
    tau = np.where(known, agree / np.where(known, size, 1.0), 0.0)
    pairs = np.diff(np.r_[starts, len(earlier)]) * known
    total = pairs.sum(axis=1)
    return np.where(total > 0, (tau * pairs).sum(axis=1) / np.where(total > 0, total, 1), np.nan)


def _pairs_of_a_word(ids: Integers) -> tuple[Integers, Integers, Integers]:
    """Every two places of the same word, word by word, and where each word's pairs begin."""
    groups = [np.flatnonzero(ids == word) for word in np.unique(ids)]
    pairs = [np.triu_indices(len(group), 1) for group in groups]
    several = [(g, p) for g, p in zip(groups, pairs, strict=True) if len(p[0])]
    if not several:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing
    sizes = [len(p[0]) for _, p in several]
    return (
        np.concatenate([g[p[0]] for g, p in several]),
        np.concatenate([g[p[1]] for g, p in several]),
        np.cumsum([0, *sizes[:-1]]),
    )
