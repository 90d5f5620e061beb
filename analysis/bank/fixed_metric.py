"""Rows of linear attention and momentum: one metric for all contexts."""

import numpy as np

from analysis.bank.checks import share
from analysis.bank.gradient import gd
from analysis.bank.hypothesis import Hypothesis, rows
from analysis.bank.naming import written
from analysis.bank.positional import decayed
from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats

LINEAR_ATTENTION = "2306.00297; 2307.03576 (one step of preconditioned descent)"


def raw_products(contexts: ContextArrays) -> Floats:
    """X' X about the origin of the codec, (C, P, P)."""
    return np.asarray(contexts.x.transpose(0, 2, 1) @ contexts.x)


def pooled_metric(contexts: ContextArrays) -> Floats:
    """(mean over contexts of X' X)^-1, (P, P): the population's precision over N.

    A pseudo-inverse with numpy's default cut where the contexts together miss a direction.
    """
    return np.asarray(np.linalg.pinv(raw_products(contexts).mean(axis=0), hermitian=True))


def identity_metric(contexts: ContextArrays) -> Floats:
    """I over the largest eigenvalue of X' X of all contexts, (P, P): half of the largest step."""
    largest = np.linalg.eigvalsh(raw_products(contexts)).max()
    scale = 1.0 / largest if largest > 0 else 0.0
    return np.eye(contexts.x.shape[2]) * scale


METRICS = {"identity": identity_metric, "pooled": pooled_metric}


def gd_metric(metric: str) -> Hypothesis:
    """q' M x_i without centring or intercept: linear attention on raw keys.

    metric: "identity" (raw dot product, scaled as one stable gradient step) or "pooled" (the
        inverse of the mean of X' X over contexts).
    """
    if metric not in METRICS:
        raise ValueError(
            f"hypothesis 'gd_metric': needed a metric among {', '.join(METRICS)}; came {metric!r}"
        )
    made = METRICS[metric]

    def row(contexts: ContextArrays) -> Floats:
        return np.asarray(contexts.queries @ made(contexts) @ contexts.x.transpose(0, 2, 1))

    return Hypothesis(
        name=written("gd_metric", metric),
        family="fixed metric",
        statement=f"linear attention q' M x_i on raw keys, M {metric}",
        source=LINEAR_ATTENTION,
        row=row,
        params={"metric": metric},
    )


def gd_metric_of(metric: Floats, *, name: str) -> Hypothesis:
    """q' M x_i with a (P, P) metric of the caller's own, for example from `fitted_metric`."""
    own = np.array(metric, dtype=np.float64)

    def row(contexts: ContextArrays) -> Floats:
        return np.asarray(contexts.queries @ own @ contexts.x.transpose(0, 2, 1))

    return Hypothesis(
        name=name,
        family="fixed metric",
        statement="linear attention q' M x_i on raw keys, M given",
        source=LINEAR_ATTENTION,
        row=row,
    )


def fitted_metric(values: Floats, contexts: ContextArrays) -> Floats:
    """The (P, P) metric M whose rows q' M x_i fit `values` (C, M, N) best over all contexts.

    Both are centred over examples and over queries first. Least squares of least norm.
    """
    features = contexts.x.shape[2]
    queries = contexts.queries - contexts.queries.mean(axis=1, keepdims=True)
    examples = contexts.x - contexts.x.mean(axis=1, keepdims=True)
    columns = np.einsum("cmp,cnq->cmnpq", queries, examples).reshape(-1, features**2)
    fitted = np.linalg.lstsq(columns, double_centred(values).ravel(), rcond=None)[0]
    return np.asarray(fitted, dtype=np.float64).reshape(features, features)


def momentum(decay: float) -> Hypothesis:
    """One gradient step, gd(1), and an exponentially decayed mean of the values, half each.

    The paper adds the decayed sum to attention; we average the two so that the row sums to 1.
    """
    rate = share("momentum", "decay", decay)
    base = gd(1)

    def row(contexts: ContextArrays) -> Floats:
        return np.asarray(0.5 * (rows(base, contexts) + decayed(contexts.x.shape[1], rate)))

    return Hypothesis(
        name=written("momentum", rate),
        family=base.family,
        statement=f"gd(1) and a mean with weights falling by {rate:g} an example, half each",
        source="2212.10559, section 5",
        row=row,
        params={"decay": rate},
    )
