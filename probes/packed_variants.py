"""Variants of one prompt packed into few forwards, each on its own beginning of the prompt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from probes.attention import LayerCall, Recorder, hidden_after, plain_output
from probes.blocks import Ask, Block, run_blocks
from probes.continuation import CachedContinuation
from probes.forward import recorded_logits
from probes.prefix import plain_layer
from probes.scores import KeyValues, LayerRows, attended
from probes.shared_cache import shared_cache

_TOKENS_AT_ONCE = 1 << 10


def _nothing(rows: LayerRows) -> None:
    """Keeps nothing of a layer's rows."""


class _Part(NamedTuple):
    """Where a batch of variants stands in one long forward: variant by variant, each with what
    follows its change (`rest` tokens) and then all suffixes. `past`: tokens before the change."""

    start: int
    variants: int
    rest: int
    past: int


class _Held(NamedTuple):
    """Keys and values of one layer of a part: (variant, ..., rest, dim), and of the suffixes,
    (variant, suffix, ..., token, dim)."""

    rest: KeyValues
    tails: KeyValues


@dataclass
class _PartsRecorder(Recorder):
    """Several batches of variants in one forward, each on its own beginning of one prefix.

    A rest attends to the beginning and to itself; a suffix attends to these and to itself,
    whatever mask the model made. `prefix`: by layer, keys and values of the whole prefix.
    `count`, `own`: suffixes, and tokens of each. `places` (token,): the position of each token in
    its own prompt. `held`: by layer, one item a part.
    """

    prefix: Sequence[KeyValues] = ()
    parts: Sequence[_Part] = ()
    count: int = 0
    own: int = 0
    places: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    held: dict[int, list[_Held]] = field(default_factory=dict)

    def positions(self, length: int) -> Tensor:
        return self.places

    def attend(self, call: LayerCall) -> Tensor:
        self.calls[call.layer] += 1
        self.held[call.layer] = []
        return torch.cat([self._of_part(call, part) for part in self.parts], 1)

    def _of_part(self, call: LayerCall, part: _Part) -> Tensor:
        """The output (1, token, head, dim) at one part's tokens."""
        span = part.rest + self.count * self.own
        stop = part.start + part.variants * span
        query, key, value = (
            torch.unflatten(x[0, :, part.start : stop], 1, (part.variants, span)).transpose(0, 1)
            for x in (call.query, call.key, call.value)
        )
        rest = KeyValues(key[:, :, : part.rest], value[:, :, : part.rest])
        tails = KeyValues(*(self._apart(x[:, :, part.rest :]) for x in (key, value)))
        self.held[call.layer].append(_Held(rest, tails))
        before = _joined(self.prefix[call.layer], part.past, rest)
        mask = hidden_after(part.rest, before.length, key.device)
        rule = call.rule._replace(mask=mask, causal=False)
        head = call._replace(
            query=query[:, :, : part.rest], key=before.key, value=before.value, rule=rule
        )
        asked = self._apart(query[:, :, part.rest :])
        rule = rule._replace(mask=None, causal=self.own > 1)
        of_tails = [
            attended(
                asked[i],
                KeyValues(tails.key[i], tails.value[i], before.key[i, None], before.value[i, None]),
                rule,
            ).output.flatten(0, 1)
            for i in range(part.variants)
        ]
        return torch.cat([plain_output(head), torch.stack(of_tails)], 1).flatten(0, 1)[None]

    def _apart(self, tails: Tensor) -> Tensor:
        """(variant, head, tokens, dim) as (variant, suffix, head, token, dim)."""
        return torch.unflatten(tails, 2, (self.count, self.own)).transpose(1, 2)


def _joined(prefix: KeyValues, past: int, rest: KeyValues) -> KeyValues:
    """The keys and values of a beginning, and of each variant's rest behind it."""
    key, value = (
        torch.cat([whole[:, :, :past].expand(len(own), -1, -1, -1), own], 2)
        for whole, own in ((prefix.key, rest.key), (prefix.value, rest.value))
    )
    return KeyValues(key, value)


def packed_variants(
    model: Any,
    prefix: Tensor,
    suffixes: Tensor,
    variants: Sequence[Tensor],
    shared: Sequence[int],
) -> Iterator[tuple[Block, ...]]:
    """Blocks of each batch of prefixes (variant, token), then the block of `prefix` itself.

    `shared`: tokens with which each batch begins like `prefix`. What follows them is run, with
    all suffixes behind it; short batches go into one forward.
    """
    (block,) = run_blocks(model, Ask(prefix, suffixes, None, _nothing), how="packed")
    assert isinstance(block.continuation, CachedContinuation)
    layers = block.continuation.cache.layers
    keys = [KeyValues(layer.prefix_key, layer.prefix_value) for layer in layers]
    rests = [batch[:, common:] for batch, common in zip(variants, shared, strict=True)]
    for first, stop in _grouped([len(rest) * (rest.shape[1] + suffixes.numel()) for rest in rests]):
        yield from _packed_parts(model, rests[first:stop], suffixes, keys, shared[first:stop])
    yield (block,)


def _grouped(tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours that together have at most `_TOKENS_AT_ONCE` tokens, as first and stop."""
    first, total = 0, 0
    for index, count in enumerate(tokens):
        if index > first and total + count > _TOKENS_AT_ONCE:
            yield first, index
            first, total = index, 0
        total += count
    if tokens:
        yield first, len(tokens)


def _packed_parts(
    model: Any,
    rests: Sequence[Tensor],
    suffixes: Tensor,
    keys: Sequence[KeyValues],
    shared: Sequence[int],
) -> Iterator[tuple[Block, ...]]:
    count, own = suffixes.shape
    ids, positions, ends, parts = [], [], [], []
    start = 0
    for rest, past in zip(rests, shared, strict=True):
        variants, length = rest.shape
        parts.append(_Part(start, variants, length, past))
        tokens = torch.cat([rest, suffixes.reshape(1, -1).expand(variants, -1)], 1)
        behind = torch.arange(own).repeat(count) + length
        places = torch.cat([torch.arange(length), behind]) + past
        last = length + own * torch.arange(1, count + 1) - 1
        starts = start + tokens.shape[1] * torch.arange(variants)
        ids.append(tokens.flatten())
        positions.append(places.repeat(variants))
        ends.append((starts[:, None] + last).flatten())
        start += tokens.numel()
    recorder = _PartsRecorder(
        torch.cat(ends),
        0,
        None,
        prefix=keys,
        parts=parts,
        count=count,
        own=own,
        places=torch.cat(positions),
    )
    logits = recorded_logits(
        model,
        torch.cat(ids)[None],
        torch.cat(ends),
        recorder,
        position_ids=torch.cat(positions)[None],
    )
    at = 0
    for number, part in enumerate(parts):
        held = [recorder.held[layer][number] for layer in sorted(recorder.held)]
        blocks = []
        for variant in range(part.variants):
            cache = _cache_of(model, keys, held, part.past, variant)
            going_on = CachedContinuation(model, cache, part.past + part.rest + own)
            blocks.append(Block(slice(0, count), None, {}, logits[0, at : at + count], going_on))
            at += count
        yield tuple(blocks)


def _cache_of(
    model: Any, keys: Sequence[KeyValues], held: Sequence[_Held], past: int, variant: int
) -> Any:
    """The cache of one variant's queries, whose prefix is stored once."""
    one = slice(variant, variant + 1)
    before = [
        _joined(whole, past, KeyValues(of.rest.key[one], of.rest.value[one]))
        for whole, of in zip(keys, held, strict=True)
    ]
    cache = DynamicCache(config=model.config)
    cache.layers = [plain_layer(layer.key, layer.value) for layer in before]
    shared = shared_cache(cache)
    for layer, of in zip(shared.layers, held, strict=True):
        layer.update(of.tails.key[variant], of.tails.value[variant])
    return shared
