"""Blocks of different prompts read together, as far as memory allows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from probes.blocks import Block
from probes.continuation import CachedContinuation, WholeContinuation
from probes.shared_cache import GroupedLayer, SharedLayer

HELD_BYTES = 1 << 29


class Joined(NamedTuple):
    """Several blocks as one: its prompts are those of `counts` blocks in turn."""

    block: Block
    counts: tuple[int, ...]


def joined_blocks(blocks: Iterable[Block], *, held_bytes: int = HELD_BYTES) -> Iterator[Joined]:
    """The blocks in order, neighbours joined while their keys and values fit `held_bytes`.

    Blocks are joined whose prompts have one length and lie on shared prefixes, or are run whole;
    a block of another kind (a recurrence, which keeps a state a prompt) stays alone.
    """
    waiting: list[Block] = []
    held = 0
    for block in blocks:
        more = _bytes(block)
        if waiting and (held + more > held_bytes or not _alike(waiting[0], block)):
            yield _joined(waiting)
            waiting, held = [], 0
        waiting.append(block)
        held += more
    if waiting:
        yield _joined(waiting)


def _joined(blocks: Sequence[Block]) -> Joined:
    counts = tuple(len(block.logits) for block in blocks)
    first = blocks[0]
    if len(blocks) == 1:
        return Joined(first, counts)
    logits = torch.cat([block.logits for block in blocks])
    together = Block(slice(0, sum(counts)), None, {}, logits, _continuation(blocks, counts))
    return Joined(together, counts)


def _continuation(blocks: Sequence[Block], counts: Sequence[int]) -> Any:
    each: list[Any] = [block.continuation for block in blocks]
    if isinstance(each[0], WholeContinuation):
        return WholeContinuation(each[0].model, torch.cat([one.ids for one in each]))
    layers = zip(*(one.cache.layers for one in each), strict=True)
    cache = Cache(layers=[GroupedLayer(of_layer, counts) for of_layer in layers])
    return CachedContinuation(each[0].model, cache, each[0].length)


def _alike(a: Block, b: Block) -> bool:
    first, second = a.continuation, b.continuation
    if isinstance(first, WholeContinuation) and isinstance(second, WholeContinuation):
        return first.ids.shape[1] == second.ids.shape[1]
    if not isinstance(first, CachedContinuation) or not isinstance(second, CachedContinuation):
        return False
    shared = all(
        type(layer) is SharedLayer and layer.keys is not None
        for one in (first, second)
        for layer in one.cache.layers
    )
    return shared and first.length == second.length


def _bytes(block: Block) -> int:
    """Keys, values and logits that this block holds."""
    held: list[Tensor] = [block.logits]
    if isinstance(block.continuation, CachedContinuation):
        for layer in block.continuation.cache.layers:
            held += [part for part in vars(layer).values() if isinstance(part, Tensor)]
    return sum(part.nbytes for part in held)
