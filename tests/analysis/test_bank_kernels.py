"""Kernels, neighbours and softmax attention, against scikit-learn and slow loops."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor

from analysis.bank import BANK, hypothesis_named, predict, rows, scores
from analysis.bank.attention import softmax_of
from analysis.bank.kernels import LEFT_OUT_MULTIPLES, median_distance
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned, contexts_of


def line(*points: float) -> ContextArrays:
    """One context at P = 1: examples at the points, y = 0, 1, 2, ..., one query at 0."""
    x = np.array(points)[None, :, None]
    return contexts_of(x, np.arange(len(points), dtype=float)[None], np.zeros((1, 1, 1)))


def averaged(query: Floats, x: Floats, width: float, *, laplace: bool = False) -> list[float]:
    """Kernel weights by the formula, example by example."""
    raised = []
    for example in x:
        distance = math.dist(query, example)
        exponent = distance / width if laplace else distance**2 / (2 * width**2)
        raised.append(math.exp(-exponent))
    return [one / sum(raised) for one in raised]


def test_the_median_distance_is_over_pairs_of_examples() -> None:
    # Of 0, 1, 3: distances 1, 2, 3. Of 0, 0, 0, 2: three 0s and three 2s, median 1.
    assert_allclose(median_distance(line(0, 1, 3)), [2.0])
    assert_allclose(median_distance(line(0, 0, 0, 2)), [1.0])
    # Of 0, 0, 0, 0, 2 six of ten are 0: the smallest above 0. One point or one example: 1.
    assert_allclose(median_distance(line(0, 0, 0, 0, 2)), [2.0])
    assert_allclose(median_distance(line(0, 0)), [1.0])
    assert_allclose(median_distance(line(3)), [1.0])


@pytest.mark.parametrize("multiple", ["1/3", "1", "3"])
def test_kernel_averages_follow_their_formula(multiple: str) -> None:
    contexts = conditioned()
    widths = median_distance(contexts) * ratio(multiple)
    for name, laplace in (("kernel", False), ("laplace", True)):
        ours = rows(hypothesis_named(f"{name}({multiple})"), contexts)
        for c in range(3):
            by_hand = [
                averaged(query, contexts.x[c], widths[c], laplace=laplace)
                for query in contexts.queries[c]
            ]
            assert_allclose(ours[c], by_hand, atol=1e-12)


def ratio(text: str) -> float:
    top, _, bottom = text.partition("/")
    return int(top) / int(bottom or 1)


def test_a_fixed_width_is_the_same_in_every_context() -> None:
    contexts = conditioned()
    ours = rows(BANK["kernel_fixed(0.25)"], contexts)
    assert_allclose(ours[2, 1], averaged(contexts.queries[2, 1], contexts.x[2], 0.25), atol=1e-12)


def test_far_queries_are_not_lost_to_underflow() -> None:
    far = line(1000, 1001, 1003)
    assert_allclose(rows(BANK["kernel_fixed(0.1)"], far), [[[1, 0, 0]]], atol=1e-12)


@pytest.mark.parametrize("name", ["kernel(1)", "laplace(1/3)", "softmax(0.3)", "edit"])
def test_the_weight_image_is_the_softmax_of_the_score_image(name: str) -> None:
    contexts = conditioned()
    raised = np.exp(scores(BANK[name], contexts))
    normalised = raised / raised.sum(axis=2, keepdims=True)
    assert_allclose(rows(BANK[name], contexts), normalised, atol=1e-12)


def test_on_scores_a_gaussian_kernel_of_fixed_width_is_the_dot_product() -> None:
    """-|q - x|^2 / 2 w^2 centred over examples and queries is q'x / w^2, centred likewise."""
    contexts = conditioned()
    products = contexts.queries @ contexts.x.transpose(0, 2, 1) / 0.25**2

    def centred(values: Floats) -> Floats:
        over_examples = values - values.mean(axis=2, keepdims=True)
        return np.asarray(over_examples - over_examples.mean(axis=1, keepdims=True))

    image = scores(BANK["kernel_fixed(0.25)"], contexts)
    assert_allclose(centred(image), centred(products), atol=1e-9)


@pytest.mark.parametrize("neighbours", [1, 3, 12])
def test_nearest_examples_agree_with_scikit_learn(neighbours: int) -> None:
    contexts = conditioned()
    ours = predict(hypothesis_named(f"nearest({neighbours})"), contexts)
    for c in range(3):
        model = KNeighborsRegressor(neighbours).fit(contexts.x[c], contexts.y[c])
        assert_allclose(ours[c], model.predict(contexts.queries[c]), atol=1e-12)


def test_examples_that_tie_for_nearest_share_the_places() -> None:
    # Distances 1, 1, 2, 2: the two nearest at 1/2 each; of three, 1/3 each and 1/6 for the tied.
    tied = line(1, -1, 2, -2)
    assert_allclose(rows(BANK["nearest(1)"], tied), [[[1 / 2, 1 / 2, 0, 0]]])
    assert_allclose(rows(BANK["nearest(3)"], tied), [[[1 / 3, 1 / 3, 1 / 6, 1 / 6]]])
    assert_allclose(rows(hypothesis_named("nearest(9)"), tied), [[[1 / 4] * 4]])


@pytest.mark.parametrize(("multiple", "penalty"), [(1, 0.1), (3, 0.1), (0.5, 2)])
def test_kernel_ridge_agrees_with_scikit_learn(multiple: float, penalty: float) -> None:
    contexts = conditioned()
    ours = rows(hypothesis_named(f"kernel_ridge({multiple},{penalty})"), contexts)
    for c, width in enumerate(multiple * median_distance(contexts)):
        model = KernelRidge(alpha=penalty, kernel="rbf", gamma=1 / (2 * width**2))
        theirs = model.fit(contexts.x[c], np.eye(12)).predict(contexts.queries[c])
        assert_allclose(ours[c], theirs, atol=1e-10)


@pytest.mark.parametrize(("multiple", "penalty"), [(1 / 3, 0.01), (1.0, 0.5)])
def test_local_linear_agrees_with_weighted_least_squares(multiple: float, penalty: float) -> None:
    """Penalised slopes are extra rows of the least-squares problem with target 0."""
    contexts = conditioned()
    ours = predict(hypothesis_named(f"local_linear({multiple},{penalty})"), contexts)
    for c, median in enumerate(median_distance(contexts)):
        for m, query in enumerate(contexts.queries[c]):
            weights = np.array(averaged(query, contexts.x[c], multiple * median))
            apart = contexts.x[c] - query
            spread = (weights[:, None] * apart**2).sum() / 2
            design = np.concatenate([np.ones((12, 1)), apart], axis=1)
            extra = np.sqrt(penalty * spread) * np.eye(3)[1:]
            system = np.concatenate([np.sqrt(weights)[:, None] * design, extra])
            target = np.concatenate([np.sqrt(weights) * contexts.y[c], [0, 0]])
            intercept = np.linalg.lstsq(system, target, rcond=None)[0][0]
            assert_allclose(ours[c, m], intercept, atol=1e-9)


def test_local_linear_reproduces_a_straight_line_where_the_penalty_is_small() -> None:
    contexts = conditioned(condition=10.0)
    slopes = np.array([2.0, -1.0])
    straight = contexts._replace(y=contexts.x @ slopes + 0.5)
    ours = predict(hypothesis_named("local_linear(1,1e-9)"), straight)
    assert_allclose(ours, contexts.queries @ slopes + 0.5, atol=1e-6)


def test_the_left_out_kernel_takes_the_width_of_least_leave_one_out_error() -> None:
    contexts = conditioned(condition=10.0)
    for c, median in enumerate(median_distance(contexts)):
        x, y = contexts.x[c], contexts.y[c]
        errors = []
        for multiple in LEFT_OUT_MULTIPLES:
            error = 0.0
            for left in range(12):
                others = [place for place in range(12) if place != left]
                weights = averaged(x[left], x[others], multiple * median)
                error += (y[left] - np.dot(weights, y[others])) ** 2
            errors.append(error)
        width = LEFT_OUT_MULTIPLES[int(np.argmin(errors))] * median
        by_hand = [np.dot(averaged(query, x, width), y) for query in contexts.queries[c]]
        assert_allclose(predict(BANK["kernel_left_out"], contexts)[c], by_hand, atol=1e-10)


def test_attention_regression_follows_its_formula() -> None:
    contexts = conditioned()
    metric = np.array([[3.0, -1.0], [0.5, 2.0]])
    pooled = np.linalg.inv(sum(x.T @ x for x in contexts.x) / 3 / 12)
    cases = (
        (softmax_of(metric, 0.7, name="mine"), metric / 0.7),
        (BANK["softmax(0.3)"], np.eye(2) / 0.3),
        (hypothesis_named("softmax_pooled(2)"), pooled / 2),
    )
    for one, scaled in cases:
        for c in range(3):
            for m, query in enumerate(contexts.queries[c]):
                raised = np.array([math.exp(query @ scaled @ x) for x in contexts.x[c]])
                assert_allclose(rows(one, contexts)[c, m], raised / raised.sum(), atol=1e-12)
