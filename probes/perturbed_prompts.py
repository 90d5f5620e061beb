"""Prompts that begin alike and then differ in one number, run from the change on."""

from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from probes.attention import Recorder
from probes.blocks import Ask, Block, cached_blocks
from probes.continuation import WholeContinuation
from probes.forward import recorded_logits
from probes.model_facts import Sharing, forget_lengths, input_device
from probes.packed_variants import packed_variants
from probes.prefix import Prefix, expanded, run_prefix
from probes.scores import LayerRows


def run_variants(
    model: Any,
    prefix: Tensor,
    suffixes: Tensor,
    variants: Sequence[Tensor],
    *,
    how: Sharing,
) -> Iterator[tuple[Block, ...]]:
    """Run a context with other tokens somewhere in its shared prefix, and as it is.

    `prefix` (token,), `suffixes` (query, token). `variants`: each (variant, token), prefixes of
    the same length that are run together, in one batch, from the first token on in which one of
    them differs; a later batch differs no earlier. Gives for each batch one block a variant, and
    last one block of the context's own queries. Nothing is kept of attention, and of keys and
    values only those of `prefix` are held from batch to batch.
    """
    shared = [_common_length(prefix, batch) for batch in variants]
    assert shared == sorted(shared), "a later batch differs no earlier"
    if how == "whole":
        return _whole(model, suffixes, [*variants, prefix[None]])
    if how == "packed":
        return packed_variants(model, prefix, suffixes, variants, shared)
    return _stepwise(model, prefix, suffixes, variants, shared, how)


def _common_length(prefix: Tensor, batch: Tensor) -> int:
    """Tokens with which all begin, at most one fewer than there are: some are left to run."""
    differ = (batch != prefix).any(0).nonzero()
    return int(differ[0]) if len(differ) else len(prefix) - 1


def _nothing(rows: LayerRows) -> None:
    """Keeps nothing of a layer's rows."""


def _ask(prefix: Tensor, suffixes: Tensor) -> Ask:
    return Ask(prefix, suffixes, None, _nothing)


def _whole(model: Any, suffixes: Tensor, batches: Sequence[Tensor]) -> Iterator[tuple[Block, ...]]:
    """Every prompt from its first token."""
    for batch in batches:
        prompts = [torch.cat([one.expand(len(suffixes), -1), suffixes], 1) for one in batch]
        yield tuple(
            Block(slice(0, len(ids)), None, {}, _logits(model, ids), WholeContinuation(model, ids))
            for ids in prompts
        )


@torch.inference_mode()
def _logits(model: Any, ids: Tensor) -> Tensor:
    forget_lengths(model)
    logits: Tensor = model(input_ids=ids.to(input_device(model)), use_cache=False).logits
    return logits[:, -1].float()


def _stepwise(
    model: Any,
    prefix: Tensor,
    suffixes: Tensor,
    variants: Sequence[Tensor],
    shared: Sequence[int],
    how: Sharing,
) -> Iterator[tuple[Block, ...]]:
    """The prefix is run from change to change; each batch goes on from a copy of what it holds.

    For caches that cannot be cut afterwards: sliding windows forget, recurrences mix.
    """
    before = Prefix(model, 0, DynamicCache(config=model.config))
    for batch, common in zip(variants, shared, strict=True):
        before = _go_on(before, prefix[:common])
        cache = expanded(before.cache, len(batch))
        rest = batch[:, before.length :]
        last = torch.tensor([rest.shape[1] - 1])
        recorded_logits(model, rest, last, Recorder(last, before.length, None), cache=cache)
        each = [Prefix(model, len(prefix), _one_of(cache, i)) for i in range(len(batch))]
        yield tuple(_suffix_block(one, suffixes, how) for one in each)
    yield (_suffix_block(_go_on(before, prefix), suffixes, how),)


def _go_on(before: Prefix, ids: Tensor) -> Prefix:
    """The prefix `ids`, whose beginning was run."""
    if len(ids) == before.length:
        return before
    rest = ids[before.length :]
    return run_prefix(before.model, rest, positions=None, keep=_nothing, before=before)[0]


def _suffix_block(prefix: Prefix, suffixes: Tensor, how: Sharing) -> Block:
    all_at_once = range(0, len(suffixes), len(suffixes))
    ask = _ask(suffixes.new_zeros(0), suffixes)
    (block,) = cached_blocks(prefix, ask, all_at_once, copies=how == "expanded")
    return block


def _one_of(cache: Any, index: int) -> Any:
    """The cache of one prompt of a batch."""
    one = copy(cache)
    one.layers = [_layer_of(layer, index) for layer in cache.layers]
    return one


def _layer_of(layer: Any, index: int) -> Any:
    if not isinstance(layer, DynamicLayer) or hasattr(layer, "conv_states"):
        layer = deepcopy(layer)
        layer.reorder_cache(torch.tensor([index]))
        return layer
    layer = copy(layer)
    if layer.is_initialized:
        layer.keys = layer.keys[index : index + 1]
        layer.values = layer.values[index : index + 1]
    return layer
