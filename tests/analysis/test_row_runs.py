"""Behavioural rows as they are measured: differences, orders, and the row test's shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.bank import BANK, Hypothesis, predict, rows
from analysis.design import ContextArrays
from analysis.row_runs import (
    RowRuns,
    at_main_places,
    checked_runs,
    crossing_pairs,
    hypothesis_runs,
    main_order,
    reordered,
    row_test_scores,
    rows_of_changes,
)
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign, simulate_contexts
from tests.analysis.drawn import conditioned, conditioned_contexts
from tests.analysis.perturbed import measured, runs_of

WITH_ROWS = [one for one in BANK.values() if one.row is not None]


def test_changes_become_rows_by_hand() -> None:
    """Two examples, three queries: (.5 - .3) / .4 = .5 and so on, examples on the last axis."""
    plus = np.array([[0.5, 0.6, 0.7], [0.2, 0.2, 0.2]])
    minus = np.array([[0.3, 0.2, 0.7], [0.6, 0.2, 0.1]])
    expected = [[0.5, -1.0], [1.0, 0.0], [0.0, 0.25]]
    assert_allclose(rows_of_changes(plus, minus, 0.2), expected)
    with pytest.raises(ValueError, match=r"needed a number above 0; came 0"):
        rows_of_changes(plus, minus, 0)


@pytest.mark.parametrize("one", WITH_ROWS, ids=lambda one: one.name)
def test_a_smoother_in_the_models_place_returns_its_own_row(one: Hypothesis) -> None:
    """Predictions are linear in y, so that the difference quotient is the row itself."""
    contexts = conditioned(contexts=4, features=2)
    own = rows(one, contexts)
    found = measured(lambda asked: predict(one, asked), contexts, 0.05)
    assert_allclose(found, own, atol=1e-12 * max(1.0, np.abs(own).max()) / 0.05)
    if own.std() > 0 and one.name not in ("uniform",):
        assert np.corrcoef(found.ravel(), own.ravel())[0, 1] > 0.99


@given(conditioned_contexts(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_rows_of_another_order_come_back_to_the_main_places(
    drawn: tuple[ContextArrays, float], seed: int
) -> None:
    """kernel(1) does not see the order; e_N is the last place of each order, wherever it stood."""
    contexts, _ = drawn
    order = np.argsort(np.random.default_rng(seed).random(contexts.y.shape), axis=1)
    orders = np.stack([main_order(contexts), order])
    kernel = hypothesis_runs(BANK["kernel(1)"], contexts, orders)
    assert_allclose(kernel[1], kernel[0], atol=1e-9)
    last = hypothesis_runs(BANK["last"], contexts, orders)
    for context in range(len(order)):
        assert_array_equal(last[1, context].argmax(axis=-1), order[context, -1])
    again = reordered(contexts, order)
    assert_array_equal(again.y[0], contexts.y[0][order[0]])
    assert_array_equal(again.x_text[0], contexts.x_text[0][order[0]])


def test_places_by_hand() -> None:
    """Order (2, 0, 1): the row's first number belongs to main example 2."""
    values = np.array([[[10.0, 20.0, 30.0]]])
    assert_array_equal(at_main_places(values, np.array([[2, 0, 1]])), [[[20.0, 30.0, 10.0]]])


def test_pairs_share_neither_size_nor_order() -> None:
    assert list(crossing_pairs(2, 2)) == [((0, 0), (1, 1)), ((0, 1), (1, 0))]
    assert list(crossing_pairs(2, 1)) == [((0, 0), (1, 0))]
    assert list(crossing_pairs(1, 3)) == [((0, 0), (0, 1)), ((0, 0), (0, 2)), ((0, 1), (0, 2))]
    assert list(crossing_pairs(1, 1)) == []


def test_the_row_test_runs_on_a_behavioural_row() -> None:
    """A least-squares answerer's row contains S^-1, a kernel smoother's does not."""
    contexts = simulate_contexts(SimulatedDesign(), rng=np.random.default_rng(1))
    for name, says in (("ols", "contains an S^-1 component"), ("kernel(1)", "none")):
        scores = row_test_scores(runs_of(BANK[name], contexts, noise=0.02))
        assert scores.shape == (64, 8, 1, 20)
        found = row_test(scores, contexts, rng=np.random.default_rng(2), flips=500, resamples=200)
        assert found.says.tolist() == [[says]], name


def test_a_cell_that_was_not_measured_leaves_the_row_untested() -> None:
    contexts = conditioned(contexts=8)
    made = runs_of(BANK["ols"], contexts)
    made.values[1, 0, 3, 2, 1] = np.nan
    assert np.isnan(made.mean[3, 2, 1])
    assert int((~made.known).sum()) == 1
    found = row_test(row_test_scores(made), contexts, rng=np.random.default_rng(2), flips=100)
    assert found.status.tolist() == ["outside"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sizes": np.array([0.1])}, r"needed the shape \(1, 2, 3, 4, 12\) .*; came \(2, 2, 3"),
        ({"sizes": np.array([0.1, 0.1])}, r"needed different numbers above 0; came \[0.1, 0.1\]"),
        ({"orders": np.zeros((2, 3, 12), int)}, "needed every number 0 to 11 once"),
        ({"orders": np.tile(np.arange(12)[::-1], (2, 3, 1))}, "needed the main order first"),
    ],
)
def test_runs_that_do_not_fit_are_refused(change: dict[str, object], sentence: str) -> None:
    contexts = conditioned()
    made: RowRuns = runs_of(BANK["ols"], contexts)._replace(**change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=sentence):
        checked_runs(made, contexts)
