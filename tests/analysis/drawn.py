"""Contexts for the tests of the bank: with a condition number of their own, and real numerals."""

import numpy as np
from hypothesis import strategies as st

from analysis.design import ContextArrays, Floats


def contexts_of(x: Floats, y: Floats, queries: Floats) -> ContextArrays:
    """Contexts of the given numbers (codec coordinates), printed as 5 + 5 z with two decimals."""
    return ContextArrays(
        x=x,
        y=y,
        queries=queries,
        x_text=np.char.mod("%.2f", 5 + 5 * x),
        query_text=np.char.mod("%.2f", 5 + 5 * queries),
        answers=np.zeros(queries.shape[:2]),
    )


def conditioned(
    *,
    contexts: int = 3,
    examples: int = 12,
    queries: int = 4,
    features: int = 2,
    condition: float = 100.0,
    seed: int = 0,
) -> ContextArrays:
    """Contexts whose Sc has exactly that condition number, about a mean of their own."""
    rng = np.random.default_rng(seed)
    x = np.empty((contexts, examples, features))
    asked = np.empty((contexts, queries, features))
    for context in range(contexts):
        noise = rng.standard_normal((examples, features))
        left = np.linalg.qr(noise - noise.mean(axis=0))[0]
        right = np.linalg.qr(rng.standard_normal((features, features)))[0]
        singular = np.sqrt(np.geomspace(1.0, 1.0 / condition, features))
        mean = rng.uniform(-0.3, 0.3, features)
        x[context] = mean + left * singular @ right
        asked[context] = mean + 0.4 * rng.standard_normal((queries, features)) * singular @ right
    return contexts_of(x, rng.uniform(-1, 1, (contexts, examples)), asked)


@st.composite
def conditioned_contexts(
    draw: st.DrawFn, *, most: float = 1e4, least_features: int = 1
) -> tuple[ContextArrays, float]:
    """Contexts and the condition number of their Sc, at most `most`."""
    condition = 10.0 ** draw(st.floats(0, np.log10(most)))
    features = draw(st.integers(least_features, 4))
    drawn = conditioned(
        contexts=draw(st.integers(1, 3)),
        examples=draw(st.integers(features + 2, 15)),
        queries=draw(st.integers(1, 4)),
        features=features,
        condition=condition,
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    return drawn, condition if features > 1 else 1.0
