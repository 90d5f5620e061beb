"""Reference models do what they are named for: descent steps and least squares, to float64."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from probes.capture import capture
from probes.reference import GradientDescentModel, LeastSquaresModel, inverse, planted_rows
from prompts.refusal import Refusal

Array = NDArray[np.float64]


class Contexts(NamedTuple):
    x: Array
    y: Array
    queries: Array


def contexts(seed: int = 0, *, count: int = 3, examples: int = 12, features: int = 4) -> Contexts:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, examples, features)) * np.geomspace(1, 0.2, features)
    y = x @ rng.normal(size=features) + 0.3 * rng.normal(size=(count, examples)) + 0.7
    return Contexts(x, y, rng.normal(size=(count, 5, features)))


def descended(
    given_: Contexts, start: Array, rate: float, steps: int, preconditioner: Array | None = None
) -> Array:
    """Predictions after plain gradient descent on sum (w.x - y)^2 / 2N, one context at a time."""
    answers = []
    for x, y, queries in zip(*given_, strict=True):
        w = start.copy()
        for _ in range(steps):
            gradient = x.T @ (x @ w - y) / len(y)
            w = w - rate * (gradient if preconditioner is None else preconditioner @ gradient)
        answers.append(queries @ w)
    return np.array(answers)


START = np.array([0.5, -1.0, 0.2, 2.0])


def model_of(**options: object) -> GradientDescentModel:
    defaults: dict[str, object] = {"examples": 12, "start": torch.as_tensor(START), "rates": [0.1]}
    return GradientDescentModel(**(defaults | options))  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), rate=st.floats(0.01, 0.5), steps=st.integers(1, 4))
def test_layers_are_steps(seed: int, rate: float, steps: int) -> None:
    """Minus the query's last entry is gradient descent from w_0, to float64."""
    drawn = contexts(seed)
    rows = planted_rows(model_of(rates=[rate], steps=steps), *drawn)
    np.testing.assert_allclose(
        rows.predictions, descended(drawn, START, rate, steps), rtol=1e-10, atol=1e-10
    )


def test_heads_add_their_rates() -> None:
    drawn = contexts()
    rows = planted_rows(model_of(rates=[0.1, 0.3, -0.05], steps=2), *drawn)
    expected = descended(drawn, START, 0.35, 2)
    np.testing.assert_allclose(rows.predictions, expected, rtol=1e-10)
    assert rows.scores.shape == (3, 5, 2, 3, 12)


def test_w_q_w_k_preconditions_the_step() -> None:
    """An asymmetric matrix tells on which side it acts."""
    drawn = contexts()
    preconditioner = np.random.default_rng(1).normal(size=(4, 4))
    model = model_of(preconditioner=torch.as_tensor(preconditioner), steps=2)
    expected = descended(drawn, START, 0.1, 2, preconditioner)
    np.testing.assert_allclose(planted_rows(model, *drawn).predictions, expected, rtol=1e-10)


def test_scores_are_products_with_the_examples() -> None:
    """x_q.x_i in every layer and head: one fixed metric, whatever the rate."""
    drawn = contexts()
    rows = planted_rows(model_of(rates=[0.1, 0.2], steps=2), *drawn)
    products = np.einsum("cmp,cnp->cmn", drawn.queries, drawn.x)
    for layer in range(2):
        for head in range(2):
            np.testing.assert_allclose(rows.scores[:, :, layer, head], products, rtol=1e-12)


def test_one_step_by_hand() -> None:
    """x = 1, 2, y = 3, 5, w_0 = 0, rate .1: w = .1 (3 + 10) / 2 = .65, so 2 gives 1.3."""
    model = GradientDescentModel(examples=2, start=torch.zeros(1, dtype=torch.float64), rates=[0.1])
    x, y, queries = np.array([[[1.0], [2.0]]]), np.array([[3.0, 5.0]]), np.array([[[2.0]]])
    assert planted_rows(model, x, y, queries).predictions.tolist() == [[pytest.approx(1.3)]]


def test_a_query_that_starts_at_zero_is_wrong_unless_w_0_is_zero() -> None:
    drawn = contexts()
    model = model_of()
    tokens = model.tokens(*(torch.as_tensor(part) for part in drawn))
    tokens[:, 12:, -1] = 0.0
    wrong = model(tokens)[:, 12:, 0].numpy()
    assert np.abs(wrong - descended(drawn, START, 0.1, 1)).max() > 0.1


@pytest.mark.parametrize("options", [{"rates": []}, {"steps": 0}])
def test_a_model_without_heads_or_layers_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(Refusal, match="needed a rate and a step at least"):
        model_of(**options)


def least_squares(given_: Contexts) -> Array:
    answers = []
    for x, y, queries in zip(*given_, strict=True):
        design = np.c_[np.ones(len(y)), x]
        w = np.linalg.lstsq(design, y, rcond=None)[0]
        answers.append(np.c_[np.ones(len(queries)), queries] @ w)
    return np.array(answers)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), intercept=st.sampled_from(["centre", "column"]))
def test_the_least_squares_layer_answers_by_least_squares(seed: int, intercept: str) -> None:
    drawn = contexts(seed)
    model = LeastSquaresModel(examples=12, intercept=intercept)  # type: ignore[arg-type]
    rows = planted_rows(model, *drawn)
    np.testing.assert_allclose(rows.predictions, least_squares(drawn), rtol=1e-9, atol=1e-9)
    assert rows.scores.shape == (3, 5, 1, 1, 12)


def test_its_scores_are_the_ols_row() -> None:
    """With a column of ones x~_q' (X~'X~)^-1 x~_i; centred, the same less 1/N."""
    drawn = contexts()
    column, centre = (
        planted_rows(LeastSquaresModel(examples=12, intercept=kind), *drawn).scores[:, :, 0, 0]
        for kind in ("column", "centre")
    )
    for context, (x, _, queries) in enumerate(zip(*drawn, strict=True)):
        shown, asked = np.c_[np.ones(12), x], np.c_[np.ones(5), queries]
        row = asked @ np.linalg.inv(shown.T @ shown) @ shown.T
        np.testing.assert_allclose(column[context], row, atol=1e-10)
        np.testing.assert_allclose(centre[context], row - 1 / 12, atol=1e-10)


def test_another_spectrum_is_ridge() -> None:
    """(l + 0.5)^-1 on centred x: scikit-learn's ridge with alpha 0.5."""
    from sklearn.linear_model import Ridge

    drawn = contexts()
    model = LeastSquaresModel(examples=12, spectrum=lambda values: 1 / (values + 0.5))
    predictions = planted_rows(model, *drawn).predictions
    for context, (x, y, queries) in enumerate(zip(*drawn, strict=True)):
        expected = Ridge(alpha=0.5).fit(x, y).predict(queries)
        np.testing.assert_allclose(predictions[context], expected, rtol=1e-9)


def test_a_copied_column_changes_nothing() -> None:
    """The least squares of minimum norm."""
    drawn = contexts()
    twice = drawn._replace(
        x=np.concatenate([drawn.x, drawn.x[..., :1]], -1),
        queries=np.concatenate([drawn.queries, drawn.queries[..., :1]], -1),
    )
    one, two = (
        planted_rows(LeastSquaresModel(examples=12), *c).predictions for c in (drawn, twice)
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_the_inverse_of_zero_is_zero() -> None:
    assert inverse(torch.tensor([0.0, 2.0, 4.0])).tolist() == [0.0, 0.5, 0.25]


def test_hook_points_bear_the_usual_names() -> None:
    """What transformer-lens caches is what capture records; a zeroed pattern changes nothing."""
    drawn = contexts()
    model = model_of(steps=2)
    tokens = model.tokens(*(torch.as_tensor(part) for part in drawn))
    _, cache = model.run_with_cache(tokens)
    captured = capture(model, tokens, torch.arange(12, 17))
    torch.testing.assert_close(captured.weights, captured.scores)
    for layer in range(2):
        scores = cache[f"blocks.{layer}.attn.hook_attn_scores"][:, :, 12:]
        torch.testing.assert_close(captured.scores[:, layer], scores)
        assert f"blocks.{layer}.attn.hook_z" in cache
        assert f"blocks.{layer}.hook_resid_post" in cache

    def silence(pattern: Tensor, hook: object) -> Tensor:
        return torch.zeros_like(pattern)

    hooks: list[Any] = [
        ("blocks.0.attn.hook_pattern", silence),
        ("blocks.1.attn.hook_pattern", silence),
    ]
    silent = model.run_with_hooks(tokens, fwd_hooks=hooks)[:, 12:, 0]
    torch.testing.assert_close(silent, torch.as_tensor(drawn.queries @ START))


def test_positions_outside_the_tokens_are_refused() -> None:
    drawn = contexts()
    model = model_of()
    tokens = model.tokens(*(torch.as_tensor(part) for part in drawn))
    with pytest.raises(Refusal, match="needed positions from 0 to 16, came"):
        capture(model, tokens, torch.tensor([17]))
