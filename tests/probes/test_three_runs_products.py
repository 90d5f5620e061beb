"""Scores, inputs and sums of v k' against plain products of what each layer projects."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.projections import layer_projections
from probes.three_runs_context import context_record, learnt_tokens
from tests.probes.finetune_models import tiny_family
from tests.probes.three_runs_prompts import all_runs, before, hand_made
from tests.probes.tiny_models import loaded


def split_heads(rows: Tensor, heads: int) -> Tensor:
    return rows.unflatten(-1, (heads, -1)).transpose(0, 1)  # type: ignore[no-untyped-call,no-any-return]


def rotated(rows: Tensor, start: int) -> Tensor:
    """(head, token, dim) rotated as Llama does: base 10 000, halves paired."""
    half = rows.shape[-1] // 2
    angles = torch.outer(
        torch.arange(start, start + rows.shape[1]).double(),
        10000.0 ** (-torch.arange(half).double() / half),
    ).to(rows)
    a, b = rows[..., :half], rows[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def projected(
    model: Any, name: str, layer: int, tokens: list[int], **options: Any
) -> tuple[Tensor, ...]:
    """Inputs, queries, keys and values (head, token, dim) of one layer, before rotation."""
    blocks: Any = {
        "gpt2": lambda: model.transformer.h[layer].attn.c_attn,
        "llama": lambda: model.model.layers[layer].self_attn,
        "xglm": lambda: model.model.layers[layer].self_attn,
    }[name]()
    seen: dict[str, Tensor] = {}
    parts = {"all": blocks} if name == "gpt2" else {n: getattr(blocks, f"{n}_proj") for n in "qkv"}

    def reader(part: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def read(_: nn.Module, inputs: Any, output: Tensor) -> None:
            seen["x"], seen[part] = inputs[0][0], output[0]

        return read

    hooks = [part.register_forward_hook(reader(n)) for n, part in parts.items()]
    with torch.no_grad():
        model(input_ids=torch.tensor(tokens)[None], **options)
    for hook in hooks:
        hook.remove()
    if name == "gpt2":
        seen.update(zip("qkv", torch.split(seen["all"], 32, -1), strict=True))
    groups = 2 if name == "llama" else 4
    q, k, v = (split_heads(seen[n], h) for n, h in (("q", 4), ("k", groups), ("v", groups)))
    return seen["x"], q, k, v


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["gpt2", "llama", "xglm"])
def test_scores_inputs_and_updates_equal_plain_products(name: str, layer: int) -> None:
    model, prompts = tiny_family(name, scale=0.7), hand_made()
    runs = all_runs(model, prompts, updates=True)
    context = context_record(loaded(model), prompts)
    shown = before(prompts, shown=True)
    turn = rotated if name == "llama" else lambda rows, start: rows
    for query, tokens in enumerate(prompts.queries):
        record, own = runs[query]["icl"], len(tokens)
        whole = [*shown, *prompts.in_context[query]]
        x, q, k, v = projected(model, name, layer, whole)
        np.testing.assert_allclose(record.inputs[layer], x[-1], atol=1e-4)
        np.testing.assert_allclose(record.query[layer], q[:, -1], atol=1e-4)
        q, k = turn(q, 0), turn(k, 0)
        many = k.repeat_interleave(4 // len(k), 0)
        scores = (many @ q[:, -1, :, None])[..., 0] / 8**0.5
        np.testing.assert_allclose(record.scores[layer], scores[:, -own:], atol=1e-3, rtol=1e-4)
        assert record.earlier is not None
        np.testing.assert_allclose(record.earlier[layer], scores[:, 1:-own], atol=1e-3, rtol=1e-4)
        assert record.update is not None
        np.testing.assert_allclose(
            record.update[layer], v[:, -own:].mT @ k[:, -own:], atol=1e-2, rtol=1e-3
        )
        alone = runs[query]["zsl"].update
        assert alone is not None
        _, _, k, v = projected(model, name, layer, [1, *tokens])
        # The keys of the query by itself, rotated to where it stands in the prompt.
        k = turn(k[:, 1:], len(whole) - own)
        np.testing.assert_allclose(alone[layer], v[:, 1:].mT @ k, atol=1e-2, rtol=1e-3)
    x, q, k, v = (part[..., 1:, :] for part in projected(model, name, layer, shown))
    np.testing.assert_allclose(context.inputs[layer], x, atol=1e-4)
    np.testing.assert_allclose(context.queries[layer], q.transpose(0, 1), atol=1e-4)
    np.testing.assert_allclose(context.keys[layer], k.transpose(0, 1), atol=1e-4)
    np.testing.assert_allclose(context.update[layer], v.mT @ turn(k, 1), atol=1e-2, rtol=1e-3)


def test_tokens_that_were_shown_and_learnt() -> None:
    """<bos> (1) and separators (63) have no match; 5 is another first token of the same text."""
    shown = [np.array([4, 6, 7, 63]), np.array([5, 6, 8, 63])]
    learnt = [np.array([1, 4, 6, 7]), np.array([1, 9, 6, 8])]
    found = learnt_tokens(shown, learnt)
    assert found.shown.tolist() == [0, 1, 2, 5, 6]
    assert found.learnt.tolist() == [1, 2, 3, 6, 7]
    assert found.demonstration.tolist() == [0, 0, 0, 1, 1]
    assert found.left_out == 3


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "lfm2"])
def test_normalised_queries_are_read_token_by_token(name: str) -> None:
    """Families hand the norm (token, head, dim) or (head, token, dim); it works head by head."""
    model, prompts = tiny_family(name), hand_made()
    context = context_record(loaded(model), prompts)
    part = layer_projections(model)[0]
    inputs: Any = torch.as_tensor(context.inputs[0])
    norm: Any = part.query.norm
    queries = norm(torch.unflatten(part.query.module(inputs), -1, (4, 8)))
    np.testing.assert_allclose(context.queries[0], queries.detach().numpy(), atol=1e-4)
