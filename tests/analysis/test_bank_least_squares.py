"""Identities of the least-squares row, for condition numbers up to 1e4."""

import numpy as np
import statsmodels.api as sm
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from statsmodels.stats.outliers_influence import OLSInfluence

from analysis.bank import BANK, hypothesis_named, predict, rows
from analysis.bank.geometry import geometry
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned, conditioned_contexts, contexts_of

Drawn = tuple[ContextArrays, float]
OLS = BANK["ols"]
TOLERANCE = 1e-10


def with_ones(points: Floats) -> Floats:
    return np.concatenate([np.ones((*points.shape[:-1], 1)), points], axis=-1)


def hat_matrices(contexts: ContextArrays) -> Floats:
    """The rows of the examples themselves, (C, N, N)."""
    itself = contexts._replace(queries=contexts.x, query_text=contexts.x_text)
    return rows(OLS, itself)


def test_two_examples_at_one_feature_by_hand() -> None:
    """Through (0, 2) and (1, 5) goes y = 2 + 3 q; at q = 3 that is 11 = -2 * 2 + 3 * 5."""
    contexts = contexts_of(
        np.array([[[0.0], [1.0]]]), np.array([[2.0, 5.0]]), np.array([[[3.0], [0.5]]])
    )
    assert_allclose(rows(OLS, contexts)[0], [[-2.0, 3.0], [0.5, 0.5]], atol=1e-12)
    assert_allclose(predict(OLS, contexts)[0], [11.0, 3.5], atol=1e-12)


@given(conditioned_contexts())
@settings(max_examples=60, deadline=None)
def test_rows_equal_the_normal_equations_with_an_intercept(drawn: Drawn) -> None:
    contexts, condition = drawn
    design, asked = with_ones(contexts.x), with_ones(contexts.queries)
    for context in range(len(design)):
        one = design[context]
        by_hand = asked[context] @ np.linalg.solve(one.T @ one, one.T)
        assert_allclose(rows(OLS, contexts)[context], by_hand, atol=TOLERANCE * condition)


@given(conditioned_contexts())
@settings(max_examples=60, deadline=None)
def test_rows_sum_to_one_and_their_squares_are_the_leverage(drawn: Drawn) -> None:
    contexts, condition = drawn
    weights = rows(OLS, contexts)
    assert_allclose(weights.sum(axis=2), 1.0, atol=TOLERANCE * condition)
    asked, design = with_ones(contexts.queries), with_ones(contexts.x)
    for context in range(len(design)):
        inverse = np.linalg.inv(design[context].T @ design[context])
        leverage = np.einsum("mp,pq,mq->m", asked[context], inverse, asked[context])
        assert_allclose((weights[context] ** 2).sum(axis=1), leverage, atol=TOLERANCE * condition)


def test_rows_can_be_negative() -> None:
    assert rows(OLS, conditioned()).min() < -0.05


@given(conditioned_contexts())
@settings(max_examples=60, deadline=None)
def test_hat_matrix_is_a_projection_of_trace_p_plus_one(drawn: Drawn) -> None:
    contexts, condition = drawn
    features = contexts.x.shape[2]
    for hat in hat_matrices(contexts):
        assert_allclose(hat, hat.T, atol=TOLERANCE * condition)
        assert_allclose(hat @ hat, hat, atol=TOLERANCE * condition)
        assert_allclose(np.trace(hat), features + 1, atol=TOLERANCE * condition)


def test_hat_matrix_and_leverage_agree_with_statsmodels() -> None:
    contexts = conditioned(features=3, condition=1e3, examples=15)
    for context, hat in enumerate(hat_matrices(contexts)):
        model = sm.OLS(contexts.y[context], sm.add_constant(contexts.x[context])).fit()
        assert_allclose(np.diag(hat), OLSInfluence(model).hat_matrix_diag, atol=1e-9)
        assert_allclose(hat, model.model.exog @ model.model.pinv_wexog, atol=1e-9)
        asked = with_ones(contexts.queries[context])
        assert_allclose(predict(OLS, contexts)[context], model.predict(asked), atol=1e-9)


@given(conditioned_contexts(least_features=2))
@settings(max_examples=40, deadline=None)
def test_rows_do_not_change_when_the_embedding_is_rotated(drawn: Drawn) -> None:
    """F = Xc U Lambda^-1/2; f_q Q (F Q)' is the row less 1/N for every rotation Q."""
    contexts, condition = drawn
    shape = geometry(contexts)
    scale = shape.eigenvalues[:, None, :] ** -0.5
    rng = np.random.default_rng(contexts.x.size)
    rotation = np.linalg.qr(rng.standard_normal(2 * contexts.x.shape[2:]))[0]
    asked, embedded = shape.query_parts * scale @ rotation, shape.example_parts * scale @ rotation
    turned = asked @ embedded.transpose(0, 2, 1) + 1 / contexts.x.shape[1]
    assert_allclose(turned, rows(OLS, contexts), atol=TOLERANCE * condition)


@given(conditioned_contexts())
@settings(max_examples=40, deadline=None)
def test_a_duplicated_column_changes_nothing(drawn: Drawn) -> None:
    contexts, condition = drawn
    twice = contexts._replace(
        x=np.concatenate([contexts.x, contexts.x[..., :1]], axis=2),
        queries=np.concatenate([contexts.queries, contexts.queries[..., :1]], axis=2),
    )
    for name in ("ols", "min_norm"):
        assert_allclose(
            rows(BANK[name], twice), rows(BANK[name], contexts), atol=TOLERANCE * condition
        )


@given(conditioned_contexts())
@settings(max_examples=40, deadline=None)
def test_ridge_descent_and_newton_reach_least_squares(drawn: Drawn) -> None:
    contexts, condition = drawn
    reached = ["ridge(0)", "gd(10000000)", "gd_per_context(1e300)", "newton(60)"]
    for name in (*reached, "newton_per_context(5000)", "min_norm", "pcr(4)"):
        gap = rows(hypothesis_named(name), contexts) - rows(OLS, contexts)
        assert_allclose(gap, 0.0, atol=TOLERANCE * condition, err_msg=name)


def test_fewer_examples_than_features_give_the_minimum_norm_row() -> None:
    """Among all w that interpolate the centred examples, the least-norm one: numpy's pinv."""
    contexts = conditioned(examples=8, features=4)
    few = contexts._replace(x=contexts.x[:, :3], y=contexts.y[:, :3])
    for context in range(3):
        mean = few.x[context].mean(axis=0)
        slopes = np.linalg.pinv(few.x[context] - mean)
        by_hand = 1 / 3 + (few.queries[context] - mean) @ slopes
        assert_allclose(rows(BANK["min_norm"], few)[context], by_hand, atol=1e-9)


def test_a_rescaled_copy_of_a_column_has_the_least_norm_row() -> None:
    """x3 = x1 + x2: the plain inverse of S is noise here, the pseudo-inverse is exact."""
    contexts = conditioned(features=2)
    dependent = contexts._replace(
        x=np.concatenate([contexts.x, contexts.x.sum(axis=2, keepdims=True)], axis=2),
        queries=np.concatenate(
            [contexts.queries, contexts.queries.sum(axis=2, keepdims=True)], axis=2
        ),
    )
    assert_allclose(rows(OLS, dependent), rows(OLS, contexts), atol=1e-10)


def test_five_examples_with_a_constant_and_a_dependent_column() -> None:
    """x3 = 1 + 2 x2 and c = 7; expected: lstsq on (1, x1, x2) alone, worked in exact rationals."""
    x = np.array([[0.1, 0.5], [0.4, 0.2], [0.9, 0.8], [0.3, 0.7], [0.6, 0.1]])
    y = np.array([1.0, 2.0, 3.0, 1.5, 2.2])

    def widened(points: Floats) -> Floats:
        return np.column_stack([points, 1 + 2 * points[:, 1], np.full(len(points), 7.0)])

    contexts = contexts_of(widened(x)[None], y[None], widened(np.array([[0.5, 0.5]]))[None])
    expected = [0.170507, 0.170507, 0.271889, 0.207373, 0.179724]
    assert_allclose(rows(BANK["min_norm"], contexts)[0, 0], expected, atol=1e-6)
    assert_allclose(predict(BANK["min_norm"], contexts)[0, 0], 2.033641, atol=1e-6)


def test_least_squares_of_one_point_is_the_mean() -> None:
    contexts = conditioned()
    point = contexts._replace(x=np.full_like(contexts.x, 0.25))
    assert_array_equal(rows(OLS, point), np.full((3, 4, 12), 1 / 12))
