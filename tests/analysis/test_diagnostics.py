"""What rows look like, and which count as S^-1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.bank import BANK, hypothesis_named, rows
from analysis.design import ContextArrays, Floats
from analysis.diagnostics import inversion_index, inversion_verdict, row_diagnostics, turnover
from analysis.simulate import SimulatedDesign, simulate_contexts
from tests.analysis.drawn import conditioned, contexts_of


def described(*weights: list[float]) -> tuple[Floats, ContextArrays]:
    """One context whose queries stand at 0, 1, 2, ... and have the given rows."""
    examples, queries = len(weights[0]), len(weights)
    contexts = contexts_of(
        np.zeros((1, examples, 1)),
        np.zeros((1, examples)),
        np.arange(float(queries))[None, :, None],
    )
    return np.array([weights]), contexts


def test_facts_of_rows_by_hand() -> None:
    """(.5, .5, 0, 0): even on two. (1, .5, -.5, 0): mass 2, a quarter of it negative."""
    seen = row_diagnostics(*described([0.5, 0.5, 0, 0], [1, 0.5, -0.5, 0]))
    assert_allclose(seen.total, [[1, 1]])
    assert_allclose(seen.negative_share, [[0, 1 / 4]])
    # (1/4 + 1/4) and (1/2)^2 + (1/4)^2 + (1/4)^2.
    assert_allclose(seen.concentration, [[1 / 2, 3 / 8]])
    assert_allclose(seen.effective_examples, [[2, 8 / 3]])
    assert_allclose(seen.leverage, [[1 / 2, 3 / 2]])
    # Changes 1/2, 0, 1/2, 0: half of their sum.
    assert_allclose(seen.turnover, [[1 / 2, 1 / 2]])


def test_turnover_is_to_the_nearest_other_query() -> None:
    # Queries at 0, 3, 4: the first looks at the second, the others at each other.
    weights = np.array([[[1.0, 0], [0.5, 0.5], [0, 1.0]]])
    assert_allclose(turnover(weights, np.array([[[0.0], [3.0], [4.0]]])), [[0.5, 0.5, 0.5]])
    assert_allclose(turnover(weights, np.array([[[0.0], [3.0], [1.0]]])), [[1.0, 0.5, 1.0]])


def test_facts_are_undefined_for_zero_rows_and_single_queries() -> None:
    seen = row_diagnostics(*described([0, 0, 0]))
    for fact in (seen.negative_share, seen.concentration, seen.effective_examples, seen.turnover):
        assert np.isnan(fact).all()
    assert_allclose(seen.total, [[0]])
    assert_allclose(seen.leverage, [[0]])


def test_even_rows_use_all_examples_and_a_neighbour_uses_one() -> None:
    contexts = conditioned()
    even = row_diagnostics(rows(BANK["uniform"], contexts), contexts)
    assert_allclose(even.effective_examples, 12)
    assert_allclose(even.turnover, 0, atol=1e-12)
    single = row_diagnostics(rows(BANK["nearest(1)"], contexts), contexts)
    assert_allclose(single.effective_examples, 1)


@given(st.integers(0, 2**32 - 1), st.floats(0, 4))
@settings(max_examples=30, deadline=None)
def test_the_index_of_a_spectral_row_is_the_ratio_of_what_it_keeps(seed: int, power: float) -> None:
    """Least squares keeps all: 1. Ridge keeps l / (l + t) of a direction; a dot product l."""
    condition = 10.0**power
    contexts = conditioned(features=3, condition=condition, seed=seed)
    # Eigenvalues 1, condition^-1/2, 1/condition by construction.
    eigenvalues = np.geomspace(1, 1 / condition, 3)
    added = 0.1 * eigenvalues.mean()
    kept = eigenvalues / (eigenvalues + added)
    for name, expected in (
        ("ols", 1.0),
        ("ridge(0.1)", kept[2] / kept[0]),
        ("gd(1)", 1 / condition),
        ("pcr(2)", 0.0),
    ):
        index = inversion_index(rows(hypothesis_named(name), contexts), contexts)
        assert_allclose(index, expected, atol=1e-7, err_msg=name)


def test_the_index_ignores_place_query_and_scale() -> None:
    contexts = conditioned()
    weights = rows(BANK["ridge(0.1)"], contexts)
    moved = 3 * weights + np.arange(12.0) + np.arange(4.0)[:, None]
    assert_allclose(inversion_index(moved, contexts), inversion_index(weights, contexts))


def test_the_index_is_undefined_where_nothing_can_be_inverted() -> None:
    contexts = conditioned()
    assert np.isnan(inversion_index(np.zeros((3, 4, 12)), contexts))
    assert np.isnan(inversion_index(-rows(BANK["ols"], contexts), contexts))
    single = conditioned(features=1)
    assert np.isnan(inversion_index(rows(BANK["ols"], single), single))


@pytest.mark.parametrize("seed", range(8))
def test_rounding_gives_a_row_of_places_no_index(seed: int) -> None:
    """The same row for all queries, up to the last bit of a float."""
    contexts = conditioned(seed=seed)
    last_bit = np.random.default_rng(seed).choice([1.0, 1.0 + 2e-16], size=(3, 4, 12))
    for name in ("uniform", "last", "recency(0.8)"):
        assert np.isnan(inversion_index(rows(BANK[name], contexts) * last_bit, contexts))


def test_contexts_that_span_fewer_directions_use_their_own_weakest() -> None:
    """A third feature that repeats the first: the weakest direction spanned is the second."""
    plain = conditioned(condition=100.0)
    contexts = plain._replace(
        x=np.concatenate([plain.x, plain.x[..., :1]], axis=2),
        queries=np.concatenate([plain.queries, plain.queries[..., :1]], axis=2),
    )
    assert_allclose(inversion_index(rows(BANK["ols"], contexts), contexts), 1.0)
    assert_allclose(inversion_index(rows(BANK["pcr(1)"], contexts), contexts), 0.0, atol=1e-9)


STANDING = simulate_contexts(SimulatedDesign(), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "says"),
    [("ols", "counts"), ("ridge(0.001)", "counts"), ("ridge(0.01)", "counts")]
    + [("gd(1024)", "counts"), ("newton(18)", "counts")]
    + [("ridge(0.1)", "neither"), ("gd(16)", "neither")]
    + [(f"newton({k})", "does not count") for k in range(1, 7)]
    + [(name, "does not count") for name in ("pcr(1)", "gd(1)", "kernel(1)", "softmax(1)", "last")]
    + [("kernel_left_out", "undefined")],
)
def test_what_counts_as_s_inverse_on_the_standing_design(name: str, says: str) -> None:
    """Condition number 100, N = 20, P = 2, 64 contexts: as the method demands."""
    assert inversion_verdict(hypothesis_named(name), STANDING).says == says


def test_one_feature_or_one_query_decides_nothing() -> None:
    single = conditioned(features=1)
    assert inversion_verdict(BANK["ols"], single).says == "undefined"
    one_query = conditioned(queries=1)
    assert inversion_verdict(BANK["ols"], one_query).says == "undefined"


def test_rows_are_not_written() -> None:
    contexts = conditioned()
    weights = rows(BANK["ols"], contexts)
    before = weights.copy()
    row_diagnostics(weights, contexts)
    inversion_index(weights, contexts)
    assert_array_equal(weights, before)
