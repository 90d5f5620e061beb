"""Shared prefixes: run what all queries of a context share once, and keep its keys and values."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from probes.attention import Recorder
from probes.forward import Forward, Keep, recorded_logits


@dataclass(frozen=True)
class Prefix:
    """Shared first tokens of some prompts, and their keys and values, which no suffix changes."""

    model: Any
    length: int
    cache: Any


def run_prefix(
    model: Any, ids: Tensor, *, positions: Tensor | None, keep: Keep, before: Prefix | None = None
) -> tuple[Prefix, Forward]:
    """Run the tokens `ids` (token,) once; what `positions` attend to is kept by `keep`.

    `before`: an earlier part of the same prompt; positions count from the prompt's first token.
    """
    past = 0 if before is None else before.length
    cache = DynamicCache(config=model.config) if before is None else expanded(before.cache, 1)
    rows = torch.tensor([len(ids) - 1]) if positions is None else positions - past
    recorder = Recorder(rows, past, None if positions is None else keep)
    logits = recorded_logits(model, ids[None], rows, recorder, cache=cache)
    return Prefix(model, past + len(ids), cache), Forward(recorder.kept, logits)


def expanded(cache: Any, count: int) -> Any:
    """A cache of `count` prompts that all begin with this one; growing it leaves this one."""
    grown = copy.copy(cache)
    grown.layers = [_expanded_layer(layer, count) for layer in cache.layers]
    return grown


def _expanded_layer(layer: Any, count: int) -> Any:
    if not isinstance(layer, DynamicLayer) or hasattr(layer, "conv_states"):
        # Recurrent states are updated in place, so each block gets its own.
        layer = copy.deepcopy(layer)
        layer.reorder_cache(torch.zeros(count, dtype=torch.long))
        return layer
    layer = copy.copy(layer)
    if layer.is_initialized:
        layer.keys = layer.keys.expand(count, *layer.keys.shape[1:])
        layer.values = layer.values.expand(count, *layer.values.shape[1:])
    return layer


def plain_layer(key: Tensor, value: Tensor) -> DynamicLayer:
    """A cache layer that holds these keys and values."""
    layer = DynamicLayer()  # type: ignore[no-untyped-call]
    layer.lazy_initialization(key, value)
    layer.keys, layer.values = key, value
    return layer
