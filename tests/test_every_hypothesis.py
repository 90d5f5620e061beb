"""What holds for every hypothesis of the bank."""

import importlib
import inspect
import pkgutil
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import analysis.bank
from analysis.bank import BANK, FAMILIES, KINDS, Hypothesis, hypothesis_named, predict, rows, scores
from analysis.bank.own import copied
from analysis.design import ContextArrays
from tests.analysis.drawn import conditioned, contexts_of

WITH_ROWS = [one for one in BANK.values() if one.row is not None]
PREDICTORS = [one for one in BANK.values() if one.row is None]
STARRED = [one for one in WITH_ROWS if one.affine_invariant]
ORDERED = ("positional", "online")
every = pytest.mark.parametrize("one", WITH_ROWS, ids=lambda one: one.name)


def frozen(contexts: ContextArrays) -> ContextArrays:
    """The same contexts in arrays that refuse to be written."""
    copies = copied(contexts)
    for array in copies:
        array.setflags(write=False)
    return copies


@every
def test_rows_are_finite_and_have_the_shape_of_queries_and_examples(one: Hypothesis) -> None:
    contexts = conditioned(contexts=3, queries=4, examples=12)
    assert rows(one, contexts).shape == (3, 4, 12)
    assert np.isfinite(rows(one, contexts)).all()
    assert scores(one, contexts).shape == (3, 4, 12)


@every
def test_rows_do_not_depend_on_y_or_on_the_answers(one: Hypothesis) -> None:
    contexts = conditioned()
    other = contexts._replace(y=-3 * contexts.y[:, ::-1], answers=contexts.answers + 7)
    assert_array_equal(rows(one, contexts), rows(one, other))
    assert_array_equal(scores(one, contexts), scores(one, other))


@pytest.mark.parametrize("one", PREDICTORS, ids=lambda one: one.name)
def test_a_predictor_that_needs_y_has_no_row(one: Hypothesis) -> None:
    with pytest.raises(ValueError, match=f"{one.name!r} has no row: its weights depend on y"):
        rows(one, conditioned())


@pytest.mark.parametrize("one", BANK.values(), ids=lambda one: one.name)
def test_nothing_is_written_into_the_contexts(one: Hypothesis) -> None:
    contexts = conditioned()
    locked = frozen(contexts)
    predict(one, locked)
    if one.row is not None:
        rows(one, locked)[:] = 0.0
        scores(one, locked)[:] = 0.0
    for before, after in zip(contexts, locked, strict=True):
        assert_array_equal(before, after)


@every
def test_the_prediction_is_the_sum_of_weight_times_y(one: Hypothesis) -> None:
    contexts = conditioned()
    weights = rows(one, contexts)
    for context in range(3):
        for query in range(4):
            by_hand = sum(weights[context, query] * contexts.y[context])
            assert_allclose(predict(one, contexts)[context, query], by_hand, atol=1e-12)


@pytest.mark.parametrize("one", STARRED, ids=lambda one: one.name)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_starred_rows_ignore_an_affine_map_of_x(one: Hypothesis, seed: int) -> None:
    contexts = conditioned(features=3, condition=100.0, seed=seed)
    assert_allclose(rows(one, mapped(contexts, seed)), rows(one, contexts), atol=1e-8)


@pytest.mark.parametrize(
    "name",
    ["ridge(0.1)", "pcr(1)", "gd(4)", "newton(4)", "ledoit_wolf", "diagonal", "threshold(0.1)"]
    + ["gd_metric(identity)", "softmax(0.3)", "kernel(1)", "laplace(1)", "nearest(1)"]
    + ["kernel_ridge(1,0.1)", "local_linear(1,0.01)", "online_gd(0.5)", "delta_rule(1)"],
)
def test_other_rows_depend_on_the_coordinates_of_x(name: str) -> None:
    contexts = conditioned(features=3, condition=100.0)
    change = rows(BANK[name], mapped(contexts, 1)) - rows(BANK[name], contexts)
    assert np.abs(change).max() > 1e-3


def mapped(contexts: ContextArrays, seed: int) -> ContextArrays:
    """x and queries under one invertible affine map of condition number 25 (of A'A)."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    matrix, shift = left * np.array([2.0, 1.0, 0.4]) @ right, rng.uniform(-1, 1, 3)
    return contexts._replace(
        x=contexts.x @ matrix + shift, queries=contexts.queries @ matrix + shift
    )


@every
def test_the_row_of_a_query_does_not_depend_on_the_other_queries(one: Hypothesis) -> None:
    contexts = conditioned()
    alone = contexts._replace(
        queries=contexts.queries[:, 2:3],
        query_text=contexts.query_text[:, 2:3],
        answers=contexts.answers[:, 2:3],
    )
    assert_allclose(rows(one, alone), rows(one, contexts)[:, 2:3], rtol=1e-10, atol=1e-12)


@every
def test_only_positional_and_online_rows_see_the_order_of_the_examples(one: Hypothesis) -> None:
    contexts = conditioned()
    order = np.random.default_rng(3).permutation(12)
    again = contexts._replace(x=contexts.x[:, order], x_text=contexts.x_text[:, order])
    change = np.abs(rows(one, again) - rows(one, contexts)[:, :, order]).max()
    if (one.family in ORDERED and one.name != "uniform") or one.name.startswith("momentum"):
        assert change > 1e-3
    else:
        assert change < 1e-9


SINGULAR = {
    "a duplicated column": (6, [[1, 1], [0, 0]]),
    "a constant column": (6, [[1, 0], [0, 0]]),
    "one point": (6, [[0, 0], [0, 0]]),
    "fewer examples than features": (2, [[1, 0, 0], [0, 1, 0]]),
    "one example": (1, [[1, 0], [0, 1]]),
}


@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("one", BANK.values(), ids=lambda one: one.name)
def test_singular_examples_give_finite_answers_without_warnings(one: Hypothesis, case: str) -> None:
    examples, mixing = SINGULAR[case]
    rng = np.random.default_rng(5)
    points = rng.standard_normal((2, examples + 3, 2)) @ np.array(mixing, dtype=float) + 0.3
    y = rng.standard_normal((2, examples))
    contexts = contexts_of(points[:, :examples], y, points[:, examples:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(predict(one, contexts)).all()


@pytest.mark.parametrize("name", BANK)
def test_a_hypothesis_is_found_by_its_own_name(name: str) -> None:
    found = hypothesis_named(name)
    assert found.name == name
    contexts = conditioned()
    assert_array_equal(predict(found, contexts), predict(BANK[name], contexts))


@pytest.mark.parametrize("one", BANK.values(), ids=lambda one: one.name)
def test_each_says_its_family_source_and_statement(one: Hypothesis) -> None:
    assert one.family in FAMILIES
    assert re.search(r"\d{4}\.\d{5}|\b(19|20)\d{2}\b", one.source)
    assert one.statement
    assert "\n" not in one.statement
    assert len(one.statement) < 90


def test_no_hypothesis_is_missing_from_the_table() -> None:
    """A function of numbers or words that makes a hypothesis is a kind of the bank."""
    made = set()
    for module in pkgutil.iter_modules(analysis.bank.__path__, "analysis.bank."):
        for name, function in inspect.getmembers(
            importlib.import_module(module.name), inspect.isfunction
        ):
            signature = inspect.signature(function)
            taken = [one.annotation for one in signature.parameters.values()]
            plain = all(one in (float, str) for one in taken)
            if signature.return_annotation is Hypothesis and plain and name != "hypothesis_named":
                made.add(name)
    assert made == set(KINDS)


def test_every_kind_is_listed_under_its_own_name() -> None:
    assert {name.partition("(")[0] for name in BANK} == set(KINDS)
