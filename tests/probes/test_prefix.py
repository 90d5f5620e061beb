"""Prompts that share their prefix against whole prompts, one forward each."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.blocks import Ask, Block, run_blocks
from probes.capture import Capture, capture, keep_all, stack_layers
from probes.forward import Forward
from probes.model_facts import Sharing, sharing
from probes.prefix import expanded, run_prefix
from probes.rows import context_rows, pair_rows
from tests.probes.tiny_models import (
    FAST,
    WITH_ATTENTION,
    HandMadeContext,
    forward_shapes,
    hand_made_context,
    loaded,
    random_ids,
    tiny_model,
)

HOW: dict[str, Sharing] = {
    "gpt2": "packed",
    "llama": "packed",
    "mistral": "cached",
    "mistral-wide-window": "packed",
    "qwen3": "packed",
    "gemma2": "cached",
    "gpt-oss": "cached",
    "qwen3-next": "expanded",
    "gpt-neo": "whole",
    "llama-dynamic": "whole",
}
LENGTH = 29


def ask_of(tokenized: HandMadeContext, positions: bool = False) -> Ask:
    return Ask(
        torch.as_tensor(tokenized.prefix),
        torch.as_tensor(tokenized.suffixes),
        torch.as_tensor(tokenized.prefix_answers) if positions else None,
        keep_all,
    )


def last_rows(model: Any, tokenized: HandMadeContext) -> Capture:
    """Each query's last row from a forward of its own over the whole prompt."""
    whole = [
        capture(model, torch.as_tensor(np.r_[tokenized.prefix, suffix])[None], torch.tensor([28]))
        for suffix in tokenized.suffixes
    ]
    parts = [
        torch.cat([getattr(w, name) for w in whole]) for name in ("scores", "weights", "logits")
    ]
    return Capture(parts[0], parts[1], None, parts[2], whole[0].layers, whole[0].path)


def of_block(block: Block) -> Capture:
    return stack_layers(Forward(block.kept, block.logits[:, None]), "fast")


def some(captured: Capture, prompts: slice) -> Capture:
    """Some prompts of a batch."""
    parts = (x[prompts] for x in (captured.scores, captured.weights, captured.logits))
    scores, weights, logits = parts
    return Capture(scores, weights, None, logits, captured.layers, captured.path)


def assert_same_rows(ours: Capture, whole: Capture) -> None:
    """Equal to 1e-5 (scores: of the largest one, which is about 10 in these models)."""
    largest = float(whole.scores.masked_fill(whole.scores.isinf(), 0.0).abs().max())
    atol = 1e-5 * max(1.0, largest)
    torch.testing.assert_close(ours.scores, whole.scores, atol=atol, rtol=0)
    torch.testing.assert_close(ours.weights, whole.weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.logits, whole.logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_how_a_family_shares(name: str) -> None:
    assert sharing(tiny_model(name), LENGTH) == HOW[name]


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_queries_that_share_a_prefix_are_whole_prompts(name: str) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    (block,) = run_blocks(model, ask_of(tokenized), how=HOW[name])
    assert_same_rows(of_block(block), last_rows(model, tokenized))


@pytest.mark.parametrize("how", ["cached", "expanded", "whole"])
@pytest.mark.parametrize("name", [name for name in FAST if HOW[name] == "packed"])
def test_every_way_of_sharing_is_exact_where_packing_is(name: str, how: Sharing) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    (block,) = run_blocks(model, ask_of(tokenized), how=how)
    assert_same_rows(of_block(block), last_rows(model, tokenized))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_blocks_change_nothing(name: str, size: int) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    blocks = list(run_blocks(model, ask_of(tokenized, positions=True), how=HOW[name], block=size))
    assert [b.queries.start for b in blocks] == list(range(0, 3, size))
    assert [b.of_prefix is not None for b in blocks] == [True] + [False] * (len(blocks) - 1)
    whole = last_rows(model, tokenized)
    for block in blocks:
        assert_same_rows(of_block(block), some(whole, block.queries))


@pytest.mark.parametrize("name", [name for name in FAST if HOW[name] != "whole"])
def test_going_on_from_one_block_leaves_the_prefix(name: str) -> None:
    """Each block's continuation grows its own cache only: the last block is still exact."""
    model, tokenized = tiny_model(name), hand_made_context()
    blocks = []
    for block in run_blocks(model, ask_of(tokenized), how=HOW[name], block=1):
        assert block.continuation is not None
        for token in (5, 6):
            block.continuation.next_logits(torch.tensor([token]))
        blocks.append(block)
    assert_same_rows(of_block(blocks[-1]), some(last_rows(model, tokenized), slice(2, 3)))


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_going_on_is_a_longer_prompt(name: str) -> None:
    """Logits after two more tokens, past a window of four, are those of the prompt with them."""
    model, tokenized = tiny_model(name), hand_made_context()
    (block,) = run_blocks(model, ask_of(tokenized), how=HOW[name])
    assert block.continuation is not None
    added = torch.tensor([[5, 6, 7], [8, 9, 10]])
    for tokens in added:
        logits = block.continuation.next_logits(tokens)
    prompts = np.c_[np.tile(tokenized.prefix, (3, 1)), tokenized.suffixes, added.T.numpy()]
    whole = capture(model, torch.as_tensor(prompts), torch.tensor([prompts.shape[1] - 1]))
    torch.testing.assert_close(logits, whole.logits[:, 0], atol=1e-4, rtol=0)


def test_going_on_forgets_a_longer_prompt_that_was_run_in_between() -> None:
    """Dynamic positions remember the longest prompt seen."""
    model, tokenized = tiny_model("llama-dynamic"), hand_made_context()
    (block,) = run_blocks(model, ask_of(tokenized), how="whole")
    assert block.continuation is not None
    capture(model, random_ids(1, 60), torch.tensor([59]))
    logits = block.continuation.next_logits(torch.tensor([5, 6, 7]))
    prompts = np.c_[np.tile(tokenized.prefix, (3, 1)), tokenized.suffixes, [5, 6, 7]]
    whole = capture(model, torch.as_tensor(prompts), torch.tensor([prompts.shape[1] - 1]))
    torch.testing.assert_close(logits, whole.logits[:, 0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", [name for name in FAST if HOW[name] != "whole"])
def test_a_prefix_in_two_parts_is_the_prefix(name: str) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    ids = torch.as_tensor(tokenized.prefix)
    before, _ = run_prefix(model, ids[:9], positions=None, keep=keep_all)
    ask = ask_of(tokenized)._replace(prefix=ids[9:], before=before)
    for _ in range(2):
        (block,) = run_blocks(model, ask, how=HOW[name])
        assert_same_rows(of_block(block), last_rows(model, tokenized))


def test_growing_an_expanded_cache_leaves_the_cache() -> None:
    for name in ("llama", "mistral", "qwen3-next"):
        model = tiny_model(name)
        prefix, _ = run_prefix(
            model, torch.as_tensor(hand_made_context().prefix), positions=None, keep=keep_all
        )
        held = [tensor.clone() for tensor in tensors_of(prefix.cache)]
        grown = expanded(prefix.cache, 2)
        model(input_ids=torch.tensor([[5, 6], [7, 8]]), cache=grown)
        assert len(held) > 0
        for before, after in zip(held, tensors_of(prefix.cache), strict=True):
            assert bool((before == after).all())


def tensors_of(cache: Any) -> Iterator[Tensor]:
    for layer in cache.layers:
        for value in vars(layer).values():
            candidates = value.values() if isinstance(value, dict) else [value]
            yield from (x for x in candidates if isinstance(x, Tensor))


def pair() -> tuple[HandMadeContext, HandMadeContext]:
    """Two contexts whose prompts are alike up to token 12."""
    a, b = hand_made_context(1), hand_made_context(2)
    b.prefix[:12] = a.prefix[:12]
    return a, b


def assert_same(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_a_pair_is_its_two_contexts(name: str) -> None:
    model = loaded(tiny_model(name))
    a, b = pair()
    both = pair_rows(model, a, b, answer_tokens=3)
    for one, tokenized in zip(both, (a, b), strict=True):
        alone = context_rows(model, tokenized, prefix_rows=False, answer_tokens=3)
        assert_same(one.query, alone.query)
        assert one.answers == alone.answers


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_pair_of_equal_prompts_is_one_context_twice(name: str) -> None:
    model, tokenized = loaded(tiny_model(name)), hand_made_context()
    a, b = pair_rows(model, tokenized, tokenized)
    assert_same(a.query, b.query)
    assert_same(a.query, context_rows(model, tokenized, answer_tokens=0).query)


def test_a_pair_runs_its_common_tokens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 common tokens, then 12 + 3 x 5 of each."""
    model = tiny_model("llama")
    shapes = forward_shapes(model, monkeypatch)
    pair_rows(loaded(model), *pair())
    assert list(map(math.prod, shapes)) == [12, 27, 27]


@pytest.mark.parametrize("name", ["longrope", "dynamic"])
def test_length_dependent_positions_share_below_their_limit_only(name: str) -> None:
    model = tiny_model("llama")
    model.config.rope_parameters = {
        "rope_type": name,
        "original_max_position_embeddings": 20,
        "rope_theta": 1e4,
    }
    assert sharing(model, 20) == "packed"
    assert sharing(model, 21) == "whole"


def test_the_longer_dynamic_prompt_is_not_its_own_beginning() -> None:
    """Why such a prefix may not be shared: run on a cache its logits are far from the whole's."""
    model, tokenized = tiny_model("llama-dynamic"), hand_made_context()
    (block,) = run_blocks(model, ask_of(tokenized), how="cached")
    whole = last_rows(model, tokenized)
    assert float((of_block(block).logits - whole.logits).abs().max()) > 0.01
