"""Descent, linear attention and learners that read in order, against loops that really learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.bank import BANK, hypothesis_named, predict, rows
from analysis.bank.fixed_metric import fitted_metric, gd_metric_of, pooled_metric
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned, contexts_of


def uneven(features: int = 2) -> ContextArrays:
    """Contexts of different size, so that one step size for all differs from one for each."""
    contexts = conditioned(features=features, condition=20.0)
    size = np.array([1.0, 0.7, 0.4])[:, None, None]
    return contexts._replace(x=contexts.x * size, queries=contexts.queries * size)


def descended(x: Floats, y: Floats, rate: float, steps: int) -> Floats:
    """Weights after `steps` of gradient descent on half the sum of squares, from zero."""
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        weights -= rate * x.T @ (x @ weights - y)
    return weights


@pytest.mark.parametrize("steps", [1, 4, 37])
@pytest.mark.parametrize("fraction", [0.2, 0.9])
def test_descent_agrees_with_a_loop_over_steps(steps: int, fraction: float) -> None:
    contexts = uneven()
    means = contexts.x.mean(axis=1, keepdims=True)
    centred = contexts.x - means
    largest = [np.linalg.eigvalsh(x.T @ x)[-1] for x in centred]
    common = predict(hypothesis_named(f"gd({steps},{fraction})"), contexts)
    own = predict(hypothesis_named(f"gd_per_context({steps},{fraction})"), contexts)
    for c, x in enumerate(centred):
        for ours, eigenvalue in ((common, max(largest)), (own, largest[c])):
            rate = 2 * fraction / eigenvalue
            weights = descended(x, contexts.y[c] - contexts.y[c].mean(), rate, steps)
            by_hand = contexts.y[c].mean() + (contexts.queries[c] - means[c]) @ weights
            assert_allclose(ours[c], by_hand, atol=1e-10)


def test_one_step_is_the_dot_product_with_one_factor_for_all_contexts() -> None:
    contexts = uneven()
    mean = contexts.x.mean(axis=1, keepdims=True)
    dots = (contexts.queries - mean) @ (contexts.x - mean).transpose(0, 2, 1)
    ratio = (rows(BANK["gd(1)"], contexts) - 1 / 12) / dots
    assert_allclose(ratio, ratio[0, 0, 0], rtol=1e-8)


def test_linear_attention_on_raw_keys_is_one_step_without_intercept() -> None:
    contexts = uneven()
    largest = max(np.linalg.eigvalsh(x.T @ x)[-1] for x in contexts.x)
    ours = predict(BANK["gd_metric(identity)"], contexts)
    for c in range(3):
        weights = descended(contexts.x[c], contexts.y[c], 1 / largest, 1)
        assert_allclose(ours[c], contexts.queries[c] @ weights, atol=1e-12)


def test_the_pooled_metric_inverts_the_mean_cross_product() -> None:
    contexts = uneven(features=3)
    by_hand = np.linalg.inv(sum(x.T @ x for x in contexts.x) / 3)
    assert_allclose(pooled_metric(contexts), by_hand, rtol=1e-9)
    ours = rows(BANK["gd_metric(pooled)"], contexts)
    assert_allclose(ours[1], contexts.queries[1] @ by_hand @ contexts.x[1].T, atol=1e-10)


def test_a_fitted_metric_finds_the_metric_behind_rows() -> None:
    contexts = conditioned(contexts=6, condition=5.0)
    metric = np.array([[2.0, -1.0], [0.5, 3.0]])
    weights = rows(gd_metric_of(metric, name="mine"), contexts)
    by_place = weights + np.arange(12) + np.arange(4)[:, None]
    assert_allclose(fitted_metric(by_place, contexts), metric, atol=1e-9)


def test_momentum_is_half_a_step_and_half_a_decayed_mean() -> None:
    """Three examples, decay 1/2: weights 1/4, 1/2, 1 over 7/4 are 1/7, 2/7, 4/7."""
    contexts = conditioned(examples=5)
    three = contexts._replace(x=contexts.x[:, :3], y=contexts.y[:, :3])
    by_hand = (rows(BANK["gd(1)"], three) + np.array([1, 2, 4]) / 7) / 2
    assert_allclose(rows(BANK["momentum(0.5)"], three), by_hand, atol=1e-12)


def lifted(points: Floats) -> Floats:
    return np.concatenate([np.ones((len(points), 1)), points], axis=1)


def test_least_mean_squares_agrees_with_learning_example_by_example() -> None:
    contexts = uneven()
    longest = max((lifted(x) ** 2).sum(axis=1).max() for x in contexts.x)
    ours = predict(BANK["online_gd(0.5)"], contexts)
    for c in range(3):
        weights = np.zeros(3)
        for key, value in zip(lifted(contexts.x[c]), contexts.y[c], strict=True):
            weights -= (weights @ key - value) * key / longest
        assert_allclose(ours[c], lifted(contexts.queries[c]) @ weights, atol=1e-12)


def normalised_lms(x: Floats, y: Floats, step: float) -> Floats:
    """Weights of normalised least mean squares on (1, x)."""
    weights = np.zeros(x.shape[1] + 1)
    for key, value in zip(lifted(x), y, strict=True):
        weights += step * (value - weights @ key) * key / (key @ key)
    return weights


@pytest.mark.parametrize("step", [0.3, 1.0])
def test_the_delta_rule_is_normalised_least_mean_squares(step: float) -> None:
    contexts = uneven()
    ours = predict(hypothesis_named(f"delta_rule({step})"), contexts)
    for c in range(3):
        weights = normalised_lms(contexts.x[c], contexts.y[c], step)
        assert_allclose(ours[c], lifted(contexts.queries[c]) @ weights, atol=1e-12)


def associative(
    contexts: ContextArrays, c: int, step: float, gates: Floats, *, unit_reads: bool
) -> Floats:
    """S <- S Diag(gates), then S <- S - step (S k - v) k', one example after the other."""
    state = np.zeros(contexts.x.shape[2] + 1)
    for key, value in zip(lifted(contexts.x[c]), contexts.y[c], strict=True):
        length = np.sqrt(key @ key)
        unit, target = key / length, value if unit_reads else value / length
        state = state * gates
        state = state - step * (state @ unit - target) * unit
    reads = lifted(contexts.queries[c])
    if unit_reads:
        reads = reads / np.linalg.norm(reads, axis=1, keepdims=True)
    return np.asarray(reads @ state)


@pytest.mark.parametrize(
    ("name", "step", "gates", "unit_reads"),
    [
        ("delta_rule(0.3)", 0.3, [1.0, 1.0, 1.0], False),
        ("delta_rule_unit(0.3)", 0.3, [1.0, 1.0, 1.0], True),
        ("delta_rule_unit(1)", 1.0, [1.0, 1.0, 1.0], True),
        ("gated_delta(0.9,0.3)", 0.3, [0.9, 0.9, 0.9], False),
        ("gated_delta(0.9,1)", 1.0, [0.9, 0.9, 0.9], False),
        ("channel_gated_delta(0.99,0.8,0.3)", 0.3, [0.99, 0.895, 0.8], False),
    ],
)
def test_delta_rules_agree_with_an_associative_memory(
    name: str, step: float, gates: list[float], unit_reads: bool
) -> None:
    contexts = uneven()
    ours = predict(BANK[name], contexts)
    for c in range(3):
        by_hand = associative(contexts, c, step, np.array(gates), unit_reads=unit_reads)
        assert_allclose(ours[c], by_hand, atol=1e-12)


def test_a_full_step_of_the_delta_rule_stores_the_last_example_exactly() -> None:
    contexts = uneven()
    at_last = contexts._replace(queries=contexts.x[:, -1:], query_text=contexts.x_text[:, -1:])
    assert_allclose(predict(BANK["delta_rule(1)"], at_last)[:, 0], contexts.y[:, -1], atol=1e-12)


def test_the_place_in_the_prompt_alone() -> None:
    """Three examples: last is (0, 0, 1); decay .5 gives 1/7, 2/7, 4/7."""
    contexts = contexts_of(np.zeros((1, 3, 1)), np.array([[1.0, 2.0, 6.0]]), np.zeros((1, 2, 1)))
    assert_allclose(rows(BANK["uniform"], contexts), np.full((1, 2, 3), 1 / 3))
    assert_allclose(rows(BANK["last"], contexts), [[[0, 0, 1]] * 2])
    assert_allclose(rows(BANK["recency(0.5)"], contexts), [[[1 / 7, 2 / 7, 4 / 7]] * 2])
    assert_allclose(predict(BANK["uniform"], contexts), [[3.0, 3.0]])
    assert_allclose(predict(BANK["last"], contexts), [[6.0, 6.0]])
