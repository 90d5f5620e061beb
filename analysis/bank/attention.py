"""Rows of softmax attention with a fixed metric."""

import numpy as np

from analysis.bank.checks import positive
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.kernels import softmax_rows
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats

ATTENTION_REGRESSION = "2504.09663, section 3.2"


def softmax_of(metric: Floats, temperature: float, *, name: str) -> Hypothesis:
    """Attention regression softmax(q' metric x_i / temperature) with a given (P, P) metric."""
    tau = positive("softmax", "temperature", temperature)

    def score(contexts: ContextArrays) -> Floats:
        return contexts.queries @ metric @ contexts.x.transpose(0, 2, 1) / tau

    return Hypothesis(
        name=name,
        family="fixed metric",
        statement=f"softmax of q' M x_i / {tau:g}, M the same in every context",
        source=ATTENTION_REGRESSION,
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
        params={"temperature": tau},
    )


def softmax(temperature: float) -> Hypothesis:
    """Attention regression with the identity for a metric: softmax(q' x_i / temperature)."""
    tau = positive("softmax", "temperature", temperature)

    def score(contexts: ContextArrays) -> Floats:
        return contexts.queries @ contexts.x.transpose(0, 2, 1) / tau

    return Hypothesis(
        name=written("softmax", tau),
        family="fixed metric",
        statement=f"softmax of the dot product, q' x_i / {tau:g}",
        source=ATTENTION_REGRESSION,
        row=lambda contexts: softmax_rows(np.asarray(score(contexts))),
        score=score,
        params={"temperature": tau},
    )
