"""Shrunken and iterated inverses against scikit-learn and slow loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge

from analysis.bank import BANK, hypothesis_named, rows
from analysis.bank.covariance import ledoit_wolf_shares
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned, conditioned_contexts, contexts_of

Drawn = tuple[ContextArrays, float]


def centred(contexts: ContextArrays, context: int) -> tuple[Floats, Floats]:
    mean = contexts.x[context].mean(axis=0)
    return contexts.queries[context] - mean, contexts.x[context] - mean


def by_inverse(contexts: ContextArrays, context: int, inverse: Floats) -> Floats:
    queries, examples = centred(contexts, context)
    return queries @ inverse @ examples.T + 1 / len(examples)


@given(conditioned_contexts())
@settings(max_examples=30, deadline=None)
def test_ridge_agrees_with_scikit_learn(drawn: Drawn) -> None:
    """Fitting the unit vectors as targets returns the row itself."""
    contexts, condition = drawn
    for penalty in (0.001, 0.1, 1.0):
        ours = rows(hypothesis_named(f"ridge({penalty})"), contexts)
        for context, x in enumerate(contexts.x):
            _, examples = centred(contexts, context)
            alpha = penalty * np.trace(examples.T @ examples) / x.shape[1]
            model = Ridge(alpha=alpha, solver="svd").fit(x, np.eye(len(x)))
            theirs = model.predict(contexts.queries[context])
            assert_allclose(ours[context], theirs, atol=1e-10 * condition)


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_pcr_agrees_with_pca_and_least_squares(kept: int) -> None:
    contexts = conditioned(features=3, condition=1e3)
    ours = rows(hypothesis_named(f"pcr({kept})"), contexts)
    for context, x in enumerate(contexts.x):
        pca = PCA(n_components=kept, svd_solver="full").fit(x)
        model = LinearRegression().fit(pca.transform(x), np.eye(len(x)))
        theirs = model.predict(pca.transform(contexts.queries[context]))
        assert_allclose(ours[context], theirs, atol=1e-8)


@pytest.mark.parametrize("examples", [6, 12, 40])
def test_ledoit_wolf_agrees_with_scikit_learn(examples: int) -> None:
    contexts = conditioned(features=3, examples=examples, condition=30.0)
    ours = rows(BANK["ledoit_wolf"], contexts)
    for context, x in enumerate(contexts.x):
        model = LedoitWolf().fit(x)
        assert_allclose(ledoit_wolf_shares(contexts)[context], model.shrinkage_, atol=1e-12)
        inverse = np.linalg.inv(len(x) * model.covariance_)
        assert_allclose(ours[context], by_inverse(contexts, context, inverse), atol=1e-9)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 9])
def test_newton_agrees_with_the_recursion(steps: int) -> None:
    contexts = conditioned(features=3, condition=20.0)
    scaled = contexts._replace(x=contexts.x * np.array([1.0, 0.7, 0.4])[:, None, None])
    products = [x.T @ x for _, x in (centred(scaled, context) for context in range(3))]
    extremes = [np.linalg.eigvalsh(product)[[0, -1]] for product in products]
    common = min(low for low, _ in extremes), max(high for _, high in extremes)
    for context, product in enumerate(products):
        for name, (low, high) in (
            ("newton", common),
            ("newton_per_context", (extremes[context][0], extremes[context][1])),
        ):
            inverse = 2 / (low**2 + high**2) * product
            for _ in range(steps):
                inverse = 2 * inverse - inverse @ product @ inverse
            ours = rows(hypothesis_named(f"{name}({steps})"), scaled)[context]
            assert_allclose(ours, by_inverse(scaled, context, inverse), atol=1e-9)


def test_newton_per_context_is_a_multiple_of_least_squares_at_two_features() -> None:
    """1 - a l^2 is -(1 - t) at the strongest and +(1 - t) at the weakest: squares are equal."""
    contexts = conditioned(features=2, condition=100.0)
    least_squares = rows(BANK["ols"], contexts) - 1 / 12
    ours = rows(hypothesis_named("newton_per_context(1)"), contexts) - 1 / 12
    # t = 2 l_min^2 / (l_max^2 + l_min^2), and 1 - (1 - t)^2 = t (2 - t).
    share = 2 / (100.0**2 + 1)
    assert_allclose(ours, share * (2 - share) * least_squares, rtol=1e-6, atol=1e-12)


def test_soft_threshold_of_two_features_by_hand() -> None:
    """Sc = [[5, 2], [2, 3]], tr/P = 4: at .25 the entry 2 becomes 1, at 1 it becomes 0."""
    # Orthonormal columns about 0, mixed by a square root of Sc.
    base = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) / 2
    values, vectors = np.linalg.eigh([[5.0, 2.0], [2.0, 3.0]])
    x = base @ (vectors * np.sqrt(values) @ vectors.T)
    contexts = contexts_of(x[None], np.zeros((1, 4)), np.array([[[0.3, -0.2]]]))
    for level, entry in ((0.25, 1.0), (1.0, 0.0)):
        inverse = np.linalg.inv(np.array([[5.0, entry], [entry, 3.0]]))
        ours = rows(hypothesis_named(f"threshold({level})"), contexts)[0]
        assert_allclose(ours, by_inverse(contexts, 0, inverse), atol=1e-10)


def test_factor_keeps_variances_and_one_eigenvector() -> None:
    contexts = conditioned(features=3, condition=50.0)
    for context in range(3):
        _, examples = centred(contexts, context)
        product = examples.T @ examples
        values, vectors = np.linalg.eigh(product)
        common = values[-1] * np.outer(vectors[:, -1], vectors[:, -1])
        inverse = np.linalg.inv(common + np.diag(np.diag(product - common)))
        ours = rows(BANK["factor(1)"], contexts)[context]
        assert_allclose(ours, by_inverse(contexts, context, inverse), atol=1e-9)


def test_factors_that_explain_everything_leave_the_least_norm_row() -> None:
    """A column twice: one factor, no variance of its own, and a singular matrix to invert."""
    single = conditioned(features=1)
    twice = single._replace(
        x=np.repeat(single.x, 2, axis=2), queries=np.repeat(single.queries, 2, axis=2)
    )
    assert_allclose(rows(BANK["factor(1)"], twice), rows(BANK["ols"], single), atol=1e-9)


def test_diagonal_is_least_squares_at_one_feature_and_ignores_covariance() -> None:
    single = conditioned(features=1)
    assert_allclose(rows(BANK["diagonal"], single), rows(BANK["ols"], single), atol=1e-10)
    contexts = conditioned(features=3)
    for context in range(3):
        _, examples = centred(contexts, context)
        inverse = np.diag(1 / (examples**2).sum(axis=0))
        ours = rows(BANK["diagonal"], contexts)[context]
        assert_allclose(ours, by_inverse(contexts, context, inverse), atol=1e-9)
