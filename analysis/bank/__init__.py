"""The bank of hypotheses: rows of weights with which a query may read its examples."""

from analysis.bank.hypothesis import FAMILIES, Hypothesis, checked_rows, predict, rows, scores
from analysis.bank.own import own_hypothesis
from analysis.bank.table import BANK, KINDS, hypothesis_named

__all__ = [
    "BANK",
    "FAMILIES",
    "KINDS",
    "Hypothesis",
    "checked_rows",
    "hypothesis_named",
    "own_hypothesis",
    "predict",
    "rows",
    "scores",
]
