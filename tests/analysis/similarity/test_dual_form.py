"""Kendall's tau of the dual form: by counting pairs, on planted weights, within words."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.similarity.dual_form import (
    attended,
    by_demonstration,
    kendall,
    learnt_by_inputs,
    learnt_by_queries,
    tau_b,
    within_identity,
)
from analysis.similarity.records import Floats, Learning
from tests.analysis.similarity.records import DIM, HEADS, LAYERS, WIDTH, record


def counted(a: Floats, b: Floats) -> float:
    """tau-b by the definition: concordant less discordant pairs over untied ones."""
    score = ties_a = ties_b = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        up_a, up_b = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
        score += up_a * up_b
        ties_a += up_a == 0
        ties_b += up_b == 0
    pairs = len(a) * (len(a) - 1) // 2
    return float(score / math.sqrt((pairs - ties_a) * (pairs - ties_b)))


def learning(tokens: int = 12, *, seed: int = 0) -> Learning:
    rng = np.random.default_rng(seed)
    return Learning(
        queries=rng.standard_normal((LAYERS, tokens, HEADS, DIM)),
        inputs=rng.standard_normal((LAYERS, tokens, WIDTH)),
        shown=rng.permutation(tokens + 3)[:tokens],
        demonstration=np.repeat(np.arange(3), tokens // 3),
        ids=rng.integers(0, 4, tokens),
    )


@pytest.mark.parametrize("seed", range(5))
def test_tau_is_what_counting_pairs_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 15).astype(float), rng.standard_normal(15).round(1)
    assert tau_b(a, b) == pytest.approx(counted(a, b))


def test_a_constant_has_no_order() -> None:
    assert math.isnan(tau_b(np.ones(5), np.arange(5.0)))
    assert math.isnan(tau_b(np.array([1.0]), np.array([2.0])))
    assert math.isnan(tau_b(np.array([1.0, np.nan]), np.array([2.0, 3.0])))
    assert tau_b(np.array([1.0, np.nan, 3]), np.array([2.0, 9, 3])) == 1


def test_weights_are_sums_over_heads() -> None:
    learnt, run = learning(), record(1, earlier=15)
    assert run.earlier is not None
    slow_icl = np.zeros((LAYERS, 12))
    slow_ft, slow_inputs = np.zeros((LAYERS, 12)), np.zeros((LAYERS, 12))
    for layer in range(LAYERS):
        for j in range(12):
            for head in range(HEADS):
                slow_icl[layer, j] += run.earlier[layer, head, learnt.shown[j]]
                for d in range(DIM):
                    asked = learnt.queries[layer, j, head, d]
                    slow_ft[layer, j] += asked * run.query[layer, head, d] / DIM
            for w in range(WIDTH):
                seen = learnt.inputs[layer, j, w]
                slow_inputs[layer, j] += seen * run.inputs[layer, w] / WIDTH
    assert_allclose(attended(run, learnt), slow_icl)
    assert_allclose(learnt_by_queries(run, learnt), slow_ft)
    assert_allclose(learnt_by_inputs(run, learnt), slow_inputs)


def test_a_run_without_demonstrations_has_no_weights() -> None:
    with pytest.raises(ValueError, match="demonstrations before the query"):
        attended(record(1), learning())


def test_weights_against_themselves_agree_and_reversed_disagree() -> None:
    m = learnt_by_queries(record(2), learning())
    assert_allclose(kendall(m, 3 * m + 1), 1)
    assert_allclose(kendall(m, -m), -1)


def test_unrelated_weights_agree_by_chance_only() -> None:
    found = [
        kendall(
            learnt_by_queries(record(seed), learning(30, seed=seed)),
            learnt_by_queries(record(seed + 1), learning(30, seed=seed + 5000)),
        ).mean()
        for seed in range(200)
    ]
    assert abs(np.mean(found)) < 4 * np.std(found, ddof=1) / math.sqrt(len(found))


def test_sums_of_demonstrations() -> None:
    m = np.arange(12.0).reshape(1, 12)
    # 0+1+2+3, 4+5+6+7, 8+9+10+11
    assert_allclose(by_demonstration(m, np.repeat(np.arange(3), 4)), [[6, 22, 38]])


def test_a_model_that_only_ranks_words_scores_nothing_within_words() -> None:
    ids = np.repeat(np.arange(5), 6)
    rng = np.random.default_rng(0)
    word = ids[None, :].astype(float)
    found = []
    for _ in range(200):
        a, b = (word + 0.01 * rng.standard_normal((1, 30)) for _ in range(2))
        assert kendall(a, b)[0] > 0.7
        found.append(within_identity(a, b, ids)[0])
    assert abs(np.mean(found)) < 4 * np.std(found, ddof=1) / math.sqrt(200)


def test_within_words_is_a_mean_weighted_by_pairs() -> None:
    ids = np.array([7, 7, 7, 9, 9, 4])
    a = np.array([[1.0, 2, 3, 1, 2, 5]])
    b = np.array([[1.0, 2, 3, 2, 1, 0]])
    # Word 7: three pairs, tau 1. Word 9: one pair, tau -1. Word 4 stands once.
    assert_allclose(within_identity(a, b, ids), [(3 * 1 + 1 * -1) / 4])
    assert np.isnan(within_identity(a[:, :1], b[:, :1], ids[:1])).all()


def test_what_only_rounding_parts_is_tied() -> None:
    """Two words, each twice with equal weight: of six pairs four count, on both sides."""
    m = np.array([[1.0, 2.0, 1.0, 2.0]])
    shaken = m + np.array([[1e-9, -1e-9, -1e-9, 1e-9]])
    assert kendall(m, shaken) == pytest.approx([1.0])
    ids = np.array([5, 6, 5, 6])
    assert np.isnan(within_identity(np.array([[1.0, 2, 3, 4]]), shaken, ids)).all()
