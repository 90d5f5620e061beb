"""Kendall's tau between attention to demonstration tokens and the weights of their dual form."""

import numpy as np
from scipy import stats

from analysis.similarity.records import Floats, Integers, Learning, Record

LEAST_TOKENS = 2


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
    return np.array([tau_b(a, b) for a, b in zip(m_icl, m_ft, strict=True)])


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
    words, counts = np.unique(ids, return_counts=True)
    found, weights = [], []
    for word, count in zip(words, counts, strict=True):
        if count >= LEAST_TOKENS:
            same = ids == word
            found.append(kendall(m_icl[:, same], m_ft[:, same]))
            weights.append(count * (count - 1) / 2)
    if not found:
        return np.full(len(m_icl), np.nan)
    taus, sizes = np.array(found), np.array(weights)[:, None]
    known = np.isfinite(taus)
    total = (known * sizes).sum(axis=0)
    weighted = np.where(known, taus * sizes, 0.0).sum(axis=0)
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), np.nan)
