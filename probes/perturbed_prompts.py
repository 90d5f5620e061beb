"""Prompts that begin alike and then differ in one number, run from the change on."""

from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from probes.attention import LayerCall, Recorder, hidden_after, plain_output
from probes.blocks import Ask, Block, cached_blocks, run_blocks
from probes.continuation import CachedContinuation, WholeContinuation
from probes.forward import recorded_logits
from probes.model_facts import Sharing, forget_lengths, input_device
from probes.prefix import Prefix, expanded, plain_layer, run_prefix
from probes.scores import KeyValues, LayerRows, attended
from probes.shared_cache import shared_cache


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
        return _packed(model, prefix, suffixes, variants, shared)
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


@dataclass
class _BatchRecorder(Recorder):
    """A batch of prefix rests, each with all suffixes packed behind it, on one shared beginning.

    `before`: by layer, keys and values of the beginning (batch 1). `rest`: tokens of each rest.
    Each suffix attends to the beginning, to its own rest and to itself. `held`: by layer, the
    keys and values (variant, ...) of beginning and rest, and (variant, suffix, ...) of suffixes.
    """

    before: dict[int, KeyValues] = field(default_factory=dict)
    rest: int = 0
    suffixes: int = 0
    held: dict[int, tuple[KeyValues, KeyValues]] = field(default_factory=dict)

    def attend(self, call: LayerCall) -> Tensor:
        self.calls[call.layer] += 1
        head, tails = self._head(call), self._tails(call)
        self.held[call.layer] = KeyValues(head.key, head.value), KeyValues(tails.key, tails.value)
        outputs = [plain_output(head)]
        of_tails = [
            attended(
                tails.query[i],
                KeyValues(tails.key[i], tails.value[i], head.key[i, None], head.value[i, None]),
                tails.rule,
            ).output.flatten(0, 1)
            for i in range(len(head.query))
        ]
        return torch.cat([*outputs, torch.stack(of_tails)], 1)

    def _head(self, call: LayerCall) -> LayerCall:
        """The call of the rests' tokens, with the keys of the beginning."""
        query, key, value = (x[:, :, : self.rest] for x in (call.query, call.key, call.value))
        beginning, count = self.before[call.layer], len(query)
        key = torch.cat([beginning.key.expand(count, -1, -1, -1), key], 2)
        value = torch.cat([beginning.value.expand(count, -1, -1, -1), value], 2)
        mask = hidden_after(self.rest, key.shape[2], key.device)
        rule = call.rule._replace(mask=mask, causal=False)
        return call._replace(query=query, key=key, value=value, rule=rule)

    def _tails(self, call: LayerCall) -> LayerCall:
        """The call of the suffixes' tokens, (variant, suffix, head, token, dim)."""
        query, key, value = (
            torch.unflatten(x[:, :, self.rest :], 2, (self.suffixes, -1)).transpose(1, 2)
            for x in (call.query, call.key, call.value)
        )
        rule = call.rule._replace(mask=None, causal=query.shape[3] > 1)
        return call._replace(query=query, key=key, value=value, rule=rule)


def _packed(
    model: Any,
    prefix: Tensor,
    suffixes: Tensor,
    variants: Sequence[Tensor],
    shared: Sequence[int],
) -> Iterator[tuple[Block, ...]]:
    """One forward a batch, over what follows the change and all suffixes."""
    (block,) = run_blocks(model, _ask(prefix, suffixes), how="packed")
    assert isinstance(block.continuation, CachedContinuation)
    layers = block.continuation.cache.layers
    keys = [KeyValues(layer.prefix_key, layer.prefix_value) for layer in layers]
    for batch, common in zip(variants, shared, strict=True):
        before = {
            index: KeyValues(of.key[:, :, :common], of.value[:, :, :common])
            for index, of in enumerate(keys)
        }
        yield _packed_batch(model, batch[:, common:], suffixes, before, common)
    yield (block,)


def _packed_batch(
    model: Any, rests: Tensor, suffixes: Tensor, before: dict[int, KeyValues], past: int
) -> tuple[Block, ...]:
    (variants, rest), (count, own) = rests.shape, suffixes.shape
    ids = torch.cat([rests, suffixes.reshape(1, -1).expand(variants, -1)], 1)
    behind = torch.arange(own).repeat(count) + rest
    positions = torch.cat([torch.arange(rest), behind])[None] + past
    ends = rest + own * torch.arange(1, count + 1) - 1
    recorder = _BatchRecorder(ends, past, None, before=before, rest=rest, suffixes=count)
    logits = recorded_logits(
        model, ids, ends, recorder, position_ids=positions.expand(variants, -1)
    )
    length = past + rest + own
    return tuple(
        Block(
            slice(0, count),
            None,
            {},
            logits[i],
            CachedContinuation(model, _cache_of(model, recorder, i), length),
        )
        for i in range(variants)
    )


def _cache_of(model: Any, recorder: _BatchRecorder, variant: int) -> Any:
    """The cache of one variant's queries, whose prefix is stored once."""
    held = [recorder.held[layer] for layer in sorted(recorder.held)]
    cache = DynamicCache(config=model.config)
    cache.layers = [
        plain_layer(head.key[variant, None], head.value[variant, None]) for head, _ in held
    ]
    shared = shared_cache(cache)
    for layer, (_, tails) in zip(shared.layers, held, strict=True):
        layer.update(tails.key[variant], tails.value[variant])
    return shared
