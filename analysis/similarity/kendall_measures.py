"""Kendall's tau of one query in every variant, from weights that are computed once."""

from typing import NamedTuple

from analysis.similarity.dual_form import (
    attended,
    by_demonstration,
    kendall,
    learnt_by_inputs,
    learnt_by_queries,
    within_identity,
)
from analysis.similarity.records import Floats, Learning, Record

KENDALL = "Kendall"
SOURCES = ("queries", "inputs")
VARIANTS = ("", "by demonstration", "within identity")


class DualWeights(NamedTuple):
    """Weights (layer, token) that a fine-tuned query gives to what it learnt; see `dual_form`."""

    queries: Floats
    inputs: Floats


def dual_weights(ft: Record, learning: Learning) -> DualWeights:
    """Both forms of m_FT of one query."""
    return DualWeights(learnt_by_queries(ft, learning), learnt_by_inputs(ft, learning))


def kendall_key(source: str, variant: str) -> str:
    """How a variant is called: ``Kendall (queries)``, ``Kendall (inputs, within identity)``."""
    return f"{KENDALL} ({kendall_variant(source, variant)})"


def kendall_variant(source: str, variant: str) -> str:
    """The words in the brackets of `kendall_key`."""
    return ", ".join(filter(None, (source, variant)))


def kendall_measures(icl: Record, weights: DualWeights, learning: Learning) -> dict[str, Floats]:
    """tau-b by layer between the query's m_ICL and some m_FT, by `kendall_key`.

    Weights of another query are the mismatch: the same demonstrations, another thing asked.
    """
    m_icl = attended(icl, learning)
    found = {}
    for source in SOURCES:
        m_ft = getattr(weights, source)
        of_demonstrations = [by_demonstration(m, learning.demonstration) for m in (m_icl, m_ft)]
        found[kendall_key(source, "")] = kendall(m_icl, m_ft)
        found[kendall_key(source, "by demonstration")] = kendall(*of_demonstrations)
        found[kendall_key(source, "within identity")] = within_identity(m_icl, m_ft, learning.ids)
    return found
