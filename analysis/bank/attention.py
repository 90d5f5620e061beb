"""Rows of softmax attention with a metric that is the same in every context."""

from collections.abc import Callable

import numpy as np

from analysis.bank.checks import positive
from analysis.bank.fixed_metric import pooled_metric
from analysis.bank.hypothesis import Hypothesis
from analysis.bank.kernels import softmax_rows
from analysis.bank.naming import written
from analysis.design import ContextArrays, Floats


def attention_regression(
    name: str, statement: str, temperature: float, metric: Callable[[ContextArrays], Floats]
) -> Hypothesis:
    """softmax(q' metric x_i / temperature) with a metric made once from all contexts."""

    def score(contexts: ContextArrays) -> Floats:
        reads = contexts.queries @ metric(contexts)
        return np.asarray(reads @ contexts.x.transpose(0, 2, 1) / temperature)

    return Hypothesis(
        name=name,
        family="fixed metric",
        statement=statement,
        source="2504.09663, section 3.2",
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
        params={"temperature": temperature},
    )


def softmax(temperature: float) -> Hypothesis:
    """softmax(q' x_i / temperature), the dot product in codec coordinates."""
    tau = positive("softmax", "temperature", temperature)
    return attention_regression(
        written("softmax", tau),
        f"softmax of the dot product, q' x_i / {tau:g}",
        tau,
        lambda contexts: np.eye(contexts.x.shape[2]),
    )


def softmax_pooled(temperature: float) -> Hypothesis:
    """softmax(q' M x_i / temperature), M the inverse of the mean of X' X / N over contexts."""
    tau = positive("softmax_pooled", "temperature", temperature)
    return attention_regression(
        written("softmax_pooled", tau),
        f"softmax of q' M x_i / {tau:g}, M the pooled precision of x",
        tau,
        lambda contexts: contexts.x.shape[1] * pooled_metric(contexts),
    )


def softmax_of(metric: Floats, temperature: float, *, name: str) -> Hypothesis:
    """softmax(q' metric x_i / temperature) with a (P, P) metric of the caller's own."""
    tau = positive("softmax_of", "temperature", temperature)
    own = np.array(metric, dtype=np.float64)
    return attention_regression(
        name, f"softmax of q' M x_i / {tau:g}, M given", tau, lambda contexts: own
    )
