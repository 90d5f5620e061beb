"""Prompts run from a changed number on, against whole prompts, one forward each."""

import gc
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from probes import packed_variants
from probes.blocks import Block
from probes.interventions import replace_heads
from probes.model_facts import attention_path, sharing
from probes.perturbed_prompts import run_variants
from tests.probes.tiny_models import (
    FAST,
    WITH_ATTENTION,
    forward_shapes,
    hand_made_context,
    tiny_model,
)

CHANGES = (3, 9, 10, 23)
LENGTH = 29


def asked() -> tuple[Tensor, Tensor, list[Tensor]]:
    """Prefix (24,), suffixes (3, 5), and pairs that differ from the prefix at one token."""
    tokenized = hand_made_context()
    prefix = torch.as_tensor(tokenized.prefix)
    pairs = []
    for place in CHANGES:
        pair = prefix.repeat(2, 1)
        pair[:, place] = torch.tensor([4, 5]) + place
        pairs.append(pair)
    return prefix, torch.as_tensor(tokenized.suffixes), pairs


def run(model: Any) -> list[tuple[Block, ...]]:
    prefix, suffixes, pairs = asked()
    return list(run_variants(model, prefix, suffixes, pairs, how=sharing(model, LENGTH)))


@torch.inference_mode()
def naive(model: Any, prefix: Tensor, *more: Tensor) -> Tensor:
    """Logits after each whole prompt (query, word), by the library's own eager attention."""
    parts = [prefix.expand(len(more[0]), -1), *more]
    logits: Tensor = model(input_ids=torch.cat(parts, 1), use_cache=False).logits
    return logits[:, -1]


def reference(name: str) -> Any:
    """The same model, so that no cache or length remembered by one is seen by the other."""
    return tiny_model(name)


def assert_whole(ran: list[tuple[Block, ...]], name: str) -> None:
    """Every block against whole prompts, one forward each."""
    prefix, suffixes, pairs = asked()
    *changed, own = ran
    assert [len(blocks) for blocks in changed] == [2] * len(CHANGES)
    for blocks, pair in zip([*changed, own], [*pairs, prefix[None]], strict=True):
        for block, variant in zip(blocks, pair, strict=True):
            whole = naive(reference(name), variant, suffixes)
            torch.testing.assert_close(block.logits, whole, atol=1e-4, rtol=1e-5)
            assert block.queries == slice(0, 3)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_every_variant_is_its_whole_prompts(name: str) -> None:
    assert_whole(run(tiny_model(name)), name)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_every_variant_goes_on_as_its_whole_prompts(name: str) -> None:
    """Two more tokens behind each prompt, each block going on after all were run."""
    prefix, suffixes, pairs = asked()
    added = torch.tensor([[5, 8], [6, 9], [7, 10]])
    *changed, own = run(tiny_model(name))
    for blocks, pair in zip([*changed, own], [*pairs, prefix[None]], strict=True):
        for block, variant in zip(blocks, pair, strict=True):
            assert block.continuation is not None
            for tokens in added.T:
                logits = block.continuation.next_logits(tokens)
            whole = naive(reference(name), variant, suffixes, added)
            torch.testing.assert_close(logits, whole, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "llama-dynamic", "gemma2"])
def test_heads_are_changed_in_every_variant(name: str) -> None:
    """At the last token of each prompt, wherever that token stands in a packed forward."""
    prefix, suffixes, pairs = asked()
    model, heads = tiny_model(name), ["L0H1", "L1H2"]
    with replace_heads(model, heads, "zero", positions=[LENGTH - 1]):
        *changed, own = run(model)
    for blocks, pair in zip([*changed, own], [*pairs, prefix[None]], strict=True):
        for block, variant in zip(blocks, pair, strict=True):
            twin = reference(name)
            with replace_heads(twin, heads, "zero", positions=[LENGTH - 1]):
                whole = naive(twin, variant, suffixes)
            assert (whole - naive(twin, variant, suffixes)).abs().max() > 1e-2
            torch.testing.assert_close(block.logits, whole, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("at_once", [1, 140, 1000])
def test_only_tokens_from_the_change_on_are_run(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 shared and 3 x 5 own tokens once, then twice what follows tokens 3, 9, 10 and 23:
    2 x (21 + 15) = 72, 60, 58 and 32, as many pairs in a forward as are allowed."""
    together = {1: [72, 60, 58, 32], 140: [132, 90], 1000: [222]}
    monkeypatch.setattr(packed_variants, "_TOKENS_AT_ONCE", at_once)
    model = tiny_model("llama")
    shapes = forward_shapes(model, monkeypatch)
    assert_whole(run(model), "llama")
    lengths = list(map(math.prod, shapes))
    assert lengths[: 1 + len(together[at_once])] == [39, *together[at_once]]


@pytest.mark.parametrize("name", ["mistral", "qwen3-next"])
def test_a_cache_that_cannot_be_cut_is_run_from_change_to_change(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prefix's 24 tokens are run once in all, whatever the number of changes."""
    model = tiny_model(name)
    shapes = forward_shapes(model, monkeypatch)
    run(model)
    assert [length for prompts, length in shapes if prompts == 1] == [3, 6, 1, 13, 1]


def test_no_variants_is_the_context_itself() -> None:
    prefix, suffixes, _ = asked()
    for name in ("llama", "mistral", "gpt-neo"):
        model = tiny_model(name)
        ((block,),) = run_variants(model, prefix, suffixes, [], how=sharing(model, LENGTH))
        torch.testing.assert_close(
            block.logits, naive(reference(name), prefix, suffixes), atol=1e-4, rtol=1e-5
        )


def tensors_alive() -> int:
    gc.collect()
    return sum(isinstance(item, Tensor) for item in gc.get_objects())


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3-next", "gpt-neo"])
def test_nothing_is_held_afterwards(name: str) -> None:
    model = tiny_model(name)
    run(model)
    before = tensors_alive()
    for _ in range(3):
        run(model)
    assert tensors_alive() == before


def test_all_ways_of_sharing_are_covered() -> None:
    ways = {sharing(tiny_model(name), LENGTH) for name in FAST}
    assert ways == {"packed", "cached", "expanded", "whole"}
    assert attention_path(tiny_model("gpt-neo")) == "eager"
