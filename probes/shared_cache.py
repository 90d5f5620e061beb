"""A key/value cache whose prefix is stored once for a whole batch, and its attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer, DynamicSlidingWindowLayer

from probes.attention import LayerCall, Recorder, hidden_after, plain_output
from probes.scores import KeyValues, LayerRows, attended
from prompts.refusal import Refusal


class SharedLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's keys and values: a prefix (batch 1) that never changes, and each prompt's own.

    `update` hands back each prompt's own keys only; the prefix joins them inside the attention
    function, where it costs no copy a prompt. `seen` counts the prefix's tokens, which are more
    than its keys in a layer with a sliding window.
    """

    is_sliding = False

    def __init__(self, key: Tensor, value: Tensor, *, seen: int, sliding: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefix_key, self.prefix_value, self.seen = key, value, seen
        self.is_sliding = sliding
        self.is_initialized = True

    @property
    def own(self) -> int:
        return 0 if self.keys is None else int(self.keys.shape[2])

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to prepare: the prefix is there from the start."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if self.keys is not None and self.values is not None:
            key_states = torch.cat([self.keys, key_states], 2)
            value_states = torch.cat([self.values, value_states], 2)
        self.keys, self.values = key_states, value_states
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        held = int(self.prefix_key.shape[2])
        return held + self.own + query_length, self.seen - held

    def get_seq_length(self) -> int:
        return self.seen + self.own

    def get_max_length(self) -> int:
        return -1

    def joined(self, key: Tensor, value: Tensor) -> KeyValues:
        return KeyValues(key, value, self.prefix_key, self.prefix_value)


class GroupedLayer(SharedLayer):  # type: ignore[no-untyped-call]
    """Several shared layers as one: prompts of several prefixes, all of one length.

    `group` (prompt,): whose prefix each prompt has. Mask sizes are those of any of them.
    """

    def __init__(self, layers: Sequence[SharedLayer], prompts: Sequence[int]) -> None:
        first = layers[0]
        super().__init__(
            first.prefix_key, first.prefix_value, seen=first.seen, sliding=first.is_sliding
        )
        self.prefixes = [(layer.prefix_key, layer.prefix_value) for layer in layers]
        self.group = torch.repeat_interleave(torch.tensor(list(prompts)))
        self.keys = torch.cat([layer.keys for layer in layers if layer.keys is not None])
        self.values = torch.cat([layer.values for layer in layers if layer.values is not None])

    def attended(self, call: LayerCall) -> Tensor:
        """The layer's output (prompt, query, head, dim), one group of prompts after another."""
        output = call.query.new_empty(call.query.transpose(1, 2).shape)
        for group in sorted(set(self.group.tolist())):
            rows = (self.group == group).nonzero()[:, 0].to(call.query.device)
            mask = call.rule.mask
            if mask is not None and len(mask) > 1:
                mask = mask[rows]
            keys = KeyValues(call.key[rows], call.value[rows], *self.prefixes[group])
            rule = call.rule._replace(mask=mask)
            output[rows] = attended(call.query[rows], keys, rule).output
        return output


def can_share_layers(cache: Any) -> bool:
    """Whether every layer of this cache is a plain or sliding-window one."""
    return all(type(x) in (DynamicLayer, DynamicSlidingWindowLayer) for x in cache.layers)


def shared_cache(cache: Any) -> Any:
    """A cache for any number of prompts that begin with what `cache` (batch 1) holds."""
    return Cache(
        layers=[
            SharedLayer(x.keys, x.values, seen=x.get_seq_length(), sliding=x.is_sliding)
            for x in cache.layers
        ]
    )


@dataclass
class CachedRecorder(Recorder):
    """Records prompts whose prefix lies in a shared cache (of a grouped one: calls only)."""

    cache: Any = None

    def attend(self, call: LayerCall) -> Tensor:
        layer = self.cache.layers[call.layer]
        rule = call.rule
        if not layer.is_sliding:
            # The whole prefix is visible: what is left of the mask is plain causality.
            rule = rule._replace(mask=None, causal=call.query.shape[2] > 1)
        call = call._replace(rule=rule)
        if isinstance(layer, GroupedLayer):
            self.calls[call.layer] += 1
            return layer.attended(call)
        keys = layer.joined(call.key, call.value)
        self.record(call, keys)
        return attended(call.query, keys, rule).output


@dataclass
class PackedRecorder(Recorder):
    """Records a prefix and all its suffixes from one forward over prefix + suffix + suffix + ...

    Each suffix attends to the prefix and to itself, whatever mask the model made. `rows` are the
    asked rows of the prefix, kept by `keep`; of each suffix `keep_suffix` keeps the last row.
    `before`: the cache of an earlier part of the prompt. `held`, if `hold`: by layer, what a cache
    of the prefix and what one of the suffixes alone would hold.
    """

    prefix: int = 0
    suffixes: int = 0
    before: Any = None
    hold: bool = False
    keep_suffix: Callable[[LayerRows], Any] | None = None
    of_suffixes: dict[int, Any] = field(default_factory=dict)
    held: dict[int, tuple[KeyValues, KeyValues]] = field(default_factory=dict)

    def positions(self, length: int) -> Tensor:
        """Each suffix goes on where the prefix ends."""
        own = (length - self.prefix) // self.suffixes
        behind = self.prefix + torch.arange(own).repeat(self.suffixes)
        return self.past + torch.cat([torch.arange(self.prefix), behind])

    def attend(self, call: LayerCall) -> Tensor:
        if call.rule.bias is not None:
            raise Refusal(
                "needed a layer without a position bias to pack suffixes, came one with it",
                where=f"layer {call.layer}",
            )
        head, tails = self._head(call), self._tails(call)
        of_prefix, own = KeyValues(head.key, head.value), KeyValues(tails.key, tails.value)
        keys = own._replace(prefix_key=head.key, prefix_value=head.value)
        if self.hold:
            self.held[call.layer] = of_prefix, own
        self.record(head, of_prefix)
        of_tails, last = attended(tails.query, keys, tails.rule)
        if self.keep_suffix is not None:
            self.of_suffixes[call.layer] = self.keep_suffix(last)
        return torch.cat([plain_output(head), of_tails.flatten(0, 1)[None]], 1)

    def _head(self, call: LayerCall) -> LayerCall:
        """The call of the prefix's tokens, with the keys of what came before."""
        query, key, value = (x[:, :, : self.prefix] for x in (call.query, call.key, call.value))
        mask = None
        if self.before is not None:
            layer = self.before.layers[call.layer]
            key, value = torch.cat([layer.keys, key], 2), torch.cat([layer.values, value], 2)
            mask = hidden_after(self.prefix, key.shape[2], key.device)
        rule = call.rule._replace(mask=mask, causal=mask is None and self.prefix > 1)
        return call._replace(query=query, key=key, value=value, rule=rule)

    def _tails(self, call: LayerCall) -> LayerCall:
        """The call of the suffixes' tokens, one suffix an item of the batch."""
        query, key, value = (
            torch.unflatten(x[0, :, self.prefix :], 1, (self.suffixes, -1)).transpose(0, 1)
            for x in (call.query, call.key, call.value)
        )
        rule = call.rule._replace(mask=None, causal=query.shape[2] > 1)
        return call._replace(query=query, key=key, value=value, rule=rule)
