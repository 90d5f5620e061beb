"""On one layer of linear attention in-context learning is a step of gradient descent: the measures
that compare the two must say so to float64."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from analysis.similarity.dual_form import attended, kendall, learnt_by_inputs, learnt_by_queries
from analysis.similarity.records import Learning
from analysis.similarity.weight_updates import update_likeness
from probes.reference.gradient_descent import GradientDescentModel
from tests.analysis.similarity.records import record

EXAMPLES, FEATURES, RATE = 12, 4, 0.7


class Task(NamedTuple):
    x: Tensor
    y: Tensor
    query: Tensor
    start: Tensor


def task(seed: int, *, examples: int = EXAMPLES) -> Task:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return Task(normal(examples, FEATURES), normal(examples), normal(1, FEATURES), normal(FEATURES))


class Read(NamedTuple):
    """What the layer read: keys (example, dim), values, the query's scores, and its answer."""

    keys: Tensor
    values: Tensor
    scores: Tensor
    answer: Tensor


def read(one: Task, preconditioner: Tensor | None = None) -> Read:
    model = GradientDescentModel(
        examples=len(one.x), start=one.start, rates=[RATE], preconditioner=preconditioner
    )
    tokens = model.tokens(one.x[None], one.y[None], one.query[None])
    answers, cache = model.run_with_cache(tokens)
    at = "blocks.0.attn.hook_"
    keys, values, scores = (cache[at + name][0, 0] for name in ("k", "v", "attn_scores"))
    return Read(keys, values, scores[-1], answers[0, -1, 0])


def stepped(one: Task) -> tuple[Tensor, Tensor]:
    """A linear layer before and after a step of SGD on half the mean squared error, by autograd."""
    layer = nn.Linear(FEATURES, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(one.start[None])
    loss = ((layer(one.x)[:, 0] - one.y) ** 2).mean() / 2
    loss.backward()
    assert layer.weight.grad is not None
    return one.start[None], one.start[None] - RATE * layer.weight.grad


@pytest.mark.parametrize("seed", range(5))
def test_the_update_of_the_context_is_that_of_the_step(seed: int) -> None:
    """Delta W_ICL = sum of v k'; the layer's projection is rate / N, its output minus the value."""
    one = task(seed)
    found = read(one)
    before, after = stepped(one)
    context = torch.einsum("jv,jk->vk", found.values, found.keys)
    np.testing.assert_allclose(
        -RATE / EXAMPLES * context[-1:], after - before, rtol=1e-12, atol=1e-14
    )
    # As one layer and head, (value dim, key dim).
    likeness = update_likeness(
        *(part.numpy()[None, None] for part in (-RATE / EXAMPLES * context[-1:], before, after))
    )
    np.testing.assert_allclose(likeness.cosine, 1, rtol=1e-14)
    np.testing.assert_allclose(likeness.relative_norm, 1, rtol=1e-12)
    # The fine-tuned layer answers the query as the context does.
    np.testing.assert_allclose((one.query @ after.T)[0, 0], found.answer, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_dual_form_is_exact(seed: int) -> None:
    """Delta W q is the errors summed by x'_j . q, which are the scores over the examples."""
    one = task(seed)
    found, (before, after) = read(one), stepped(one)
    errors = one.x @ one.start - one.y
    weights = one.x @ one.query[0]
    np.testing.assert_allclose(found.scores, weights, rtol=1e-14)
    moved = ((after - before) @ one.query[0])[0]
    np.testing.assert_allclose(moved, -RATE / EXAMPLES * (errors @ weights), rtol=1e-12)


def tau(one: Task, preconditioner: Tensor | None = None, *, by: str = "inputs") -> float:
    """Kendall's tau of the layer's scores and the dual form's weights, from records of both."""
    found = read(one, preconditioner)
    icl = record(0)._replace(earlier=found.scores.numpy()[None, None])
    asked: Any = one.query.numpy()
    ft = record(1)._replace(inputs=asked, query=asked[:, None])
    learning = Learning(
        queries=one.x.numpy()[None, :, None],
        inputs=one.x.numpy()[None],
        shown=np.arange(len(one.x)),
        demonstration=np.arange(len(one.x)),
        ids=np.arange(len(one.x)),
    )
    learnt = {"inputs": learnt_by_inputs, "queries": learnt_by_queries}[by]
    return float(kendall(attended(icl, learning), learnt(ft, learning))[0])


@pytest.mark.parametrize("by", ["inputs", "queries"])
def test_tau_of_the_dual_form_against_itself_is_one(by: str) -> None:
    for seed in range(20):
        assert tau(task(seed), by=by) == pytest.approx(1, abs=1e-12)


def shuffled(matrix: Tensor, generator: torch.Generator) -> Tensor:
    order = torch.randperm(matrix.numel(), generator=generator)
    return matrix.flatten()[order].reshape(matrix.shape)


def test_shuffled_models_average_no_tau() -> None:
    """A metric W_Q W_K' with W_Q = W_K orders much as x'.q does; the entries of both shuffled, no
    more than by chance, whose spread over seeds is wide all the same: one twin says nothing."""
    trained, twins = [], []
    for seed in range(300):
        one, generator = task(1000 + seed, examples=30), torch.Generator().manual_seed(seed)
        weights = torch.randn(FEATURES, 16, generator=generator, dtype=torch.float64)
        trained.append(tau(one, weights @ weights.T))
        sides = [shuffled(weights, generator) for _ in range(2)]
        twins.append(tau(one, sides[0] @ sides[1].T))
    interval = stats.t.interval(0.99, len(twins) - 1, np.mean(twins), stats.sem(twins))
    assert interval[0] < 0 < interval[1]
    assert interval[1] < 0.08
    assert np.mean(trained) > 0.5
    assert np.std(twins) > 0.04
