"""The queries of one context, run in blocks that share their prefix as far as that is exact."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from probes.attention import Recorder
from probes.continuation import CachedContinuation, Continuation, WholeContinuation
from probes.forward import Forward, Keep, eager_forward, recorded_logits
from probes.model_facts import Sharing, attention_path
from probes.prefix import Prefix, expanded, plain_layer, run_prefix
from probes.scores import LayerRows
from probes.shared_cache import CachedRecorder, PackedRecorder, can_share_layers, shared_cache


class Ask(NamedTuple):
    """What is run and kept.

    `prefix` (token,): the shared tokens, or those after `before`, an earlier part already run.
    `suffixes` (query, token). `positions`: prefix positions whose rows are kept, counted from the
    prompt's first token; None for none. `keep` reduces a layer's rows. `go_on`: whether the
    queries will be continued; keys and values are held only if so.
    """

    prefix: Tensor
    suffixes: Tensor
    positions: Tensor | None
    keep: Keep
    before: Prefix | None = None
    go_on: bool = True

    @property
    def past(self) -> int:
        return 0 if self.before is None else self.before.length


class Block(NamedTuple):
    """Some queries of a context, run together.

    `queries`: which. `of_prefix`: what was kept of the asked prefix positions, by layer (first
    block only, else None). `kept`: what was kept of each query's last token. `logits` (query,
    word) there. `continuation` goes on from there, None where it was not asked for.
    """

    queries: slice
    of_prefix: dict[int, Any] | None
    kept: dict[int, Any]
    logits: Tensor
    continuation: Continuation | None


def cached_blocks(
    prefix: Prefix, ask: Ask, starts: range, *, copies: bool = False
) -> Iterator[Block]:
    """`copies`: each query on a copy of the cache, even where one could be shared."""
    for start in starts:
        ids = ask.suffixes[start : start + starts.step]
        last = torch.tensor([ids.shape[1] - 1])
        recorder: Recorder
        if not copies and can_share_layers(prefix.cache):
            cache = shared_cache(prefix.cache)
            recorder = CachedRecorder(last, prefix.length, ask.keep, cache=cache)
        else:
            cache = expanded(prefix.cache, len(ids))
            recorder = Recorder(last, prefix.length, ask.keep)
        logits = recorded_logits(prefix.model, ids, last, recorder, cache=cache)
        queries = slice(start, start + len(ids))
        continuation = CachedContinuation(prefix.model, cache, prefix.length + ids.shape[1])
        yield Block(queries, None, recorder.kept, logits[:, 0], continuation)


def _prefix_then_blocks(model: Any, ask: Ask, size: int, *, copies: bool) -> Iterator[Block]:
    prefix, forward = run_prefix(
        model, ask.prefix, positions=ask.positions, keep=ask.keep, before=ask.before
    )
    of_prefix = None if ask.positions is None else forward.kept
    starts = range(0, len(ask.suffixes), size)
    for block in cached_blocks(prefix, ask, starts, copies=copies):
        yield block._replace(of_prefix=of_prefix)
        of_prefix = None


def _packed_recorder(ask: Ask, count: int) -> PackedRecorder:
    """Keys are held for those who go on, and for the queries of later blocks."""
    return PackedRecorder(
        torch.tensor([]) if ask.positions is None else ask.positions - ask.past,
        ask.past,
        None if ask.positions is None else ask.keep,
        prefix=len(ask.prefix),
        suffixes=count,
        before=None if ask.before is None else ask.before.cache,
        hold=ask.go_on or count < len(ask.suffixes),
        keep_suffix=ask.keep,
    )


def _packed_block(model: Any, ask: Ask, count: int) -> tuple[Block, Prefix | None]:
    """The first `count` suffixes packed behind the prefix, in one forward."""
    length, own = len(ask.prefix), ask.suffixes.shape[1]
    ids = torch.cat([ask.prefix, ask.suffixes[:count].reshape(-1)])[None]
    behind = torch.arange(own).repeat(count) + length
    positions = torch.cat([torch.arange(length), behind])[None] + ask.past
    ends = length + own * torch.arange(1, count + 1) - 1
    recorder = _packed_recorder(ask, count)
    logits = recorded_logits(model, ids, ends, recorder, position_ids=positions)
    of_prefix = None if ask.positions is None else recorder.kept
    block = Block(slice(0, count), of_prefix, recorder.of_suffixes, logits[0], None)
    if not recorder.hold:
        return block, None
    prefix, cache = _packed_caches(model, ask, recorder)
    continuation = CachedContinuation(model, cache, prefix.length + own)
    return block._replace(continuation=continuation), prefix


def _packed_caches(model: Any, ask: Ask, recorder: PackedRecorder) -> tuple[Prefix, Any]:
    """The prefix's cache, and the cache of all its suffixes on it."""
    held = [recorder.held[layer] for layer in sorted(recorder.held)]
    cache = DynamicCache(config=model.config)
    cache.layers = [plain_layer(prefix.key, prefix.value) for prefix, _ in held]
    shared = shared_cache(cache)
    for layer, (_, own) in zip(shared.layers, held, strict=True):
        layer.update(own.key, own.value)
    return Prefix(model, ask.past + len(ask.prefix), cache), shared


def _packed_blocks(model: Any, ask: Ask, size: int) -> Iterator[Block]:
    first, prefix = _packed_block(model, ask, min(size, len(ask.suffixes)))
    yield first
    if prefix is not None:
        yield from cached_blocks(prefix, ask, range(size, len(ask.suffixes), size))


def _whole_blocks(model: Any, ask: Ask, size: int) -> Iterator[Block]:
    """Every prompt from its first token; rows of the prefix are those of the first query."""
    asked = torch.tensor([], dtype=torch.long) if ask.positions is None else ask.positions
    for start in range(0, len(ask.suffixes), size):
        suffixes = ask.suffixes[start : start + size]
        ids = torch.cat([ask.prefix.expand(len(suffixes), -1), suffixes], 1)
        last = torch.tensor([ids.shape[1] - 1])
        rows = torch.cat([asked, last]) if start == 0 else last
        forward = _whole_forward(model, ids, rows, ask.keep)
        first = start == 0 and ask.positions is not None
        yield Block(
            slice(start, start + len(ids)),
            {layer: kept[0] for layer, kept in forward.kept.items()} if first else None,
            {layer: kept[1] for layer, kept in forward.kept.items()},
            forward.logits[:, -1],
            WholeContinuation(model, ids),
        )


def _whole_forward(model: Any, ids: Tensor, rows: Tensor, keep: Keep) -> Forward:
    def keep_both(layer: LayerRows) -> tuple[Any, Any]:
        of_first = LayerRows(layer.scores[:1, :, :-1], layer.weights[:1, :, :-1], None, 0)
        of_last = LayerRows(layer.scores[:, :, -1:], layer.weights[:, :, -1:], None, 0)
        return keep(of_first) if len(rows) > 1 else None, keep(of_last)

    if attention_path(model) == "eager":
        return eager_forward(model, ids, rows, keep=keep_both)
    recorder = Recorder(rows, 0, keep_both)
    logits = recorded_logits(model, ids, rows, recorder)
    return Forward(recorder.kept, logits)


def run_blocks(model: Any, ask: Ask, *, how: Sharing, block: int = 0) -> Iterator[Block]:
    """Run a context's queries in blocks of `block` (0: all at once), sharing the prefix as `how`.

    Blocks are run when they are asked for, and nothing of an earlier one is held.
    """
    size = block or len(ask.suffixes)
    if how == "whole":
        return _whole_blocks(model, ask, size)
    if how == "packed":
        return _packed_blocks(model, ask, size)
    return _prefix_then_blocks(model, ask, size, copies=how == "expanded")
