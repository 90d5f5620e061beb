"""Shared prefixes: run what all queries of a context share once, then only their own tokens."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from probes.attention import LayerRows
from probes.capture import Forward, recorded_forward

_LENGTH_DEPENDENT = ("dynamic", "longrope")


@dataclass(frozen=True)
class Prefix:
    """A context's shared tokens and their keys and values, which no suffix changes."""

    model: Any
    length: int
    cache: Any


class SuffixBlock(NamedTuple):
    """One block of suffixes: the queries it holds, what was kept, and its own cache."""

    queries: slice
    forward: Forward
    cache: Any


def _rope_parameters(config: Any) -> list[dict[str, Any]]:
    parameters = getattr(config, "rope_parameters", None) or {}
    if "rope_type" in parameters:
        return [parameters]
    return [value for value in parameters.values() if isinstance(value, dict)]


def shares_prefix(model: Any, length: int) -> bool:
    """Whether a cached prefix is exact for prompts of `length` tokens, answer included.

    Not where positions depend on the final length: dynamic NTK and longrope past their limit.
    """
    config = model.config.get_text_config(decoder=True)
    for parameters in _rope_parameters(config):
        if parameters.get("rope_type") in _LENGTH_DEPENDENT:
            limit = parameters.get("original_max_position_embeddings")
            limit = limit or getattr(config, "original_max_position_embeddings", None)
            if length > (limit or config.max_position_embeddings):
                return False
    return True


def _nothing(rows: LayerRows) -> None:
    return None


def run_prefix(
    model: Any,
    ids: Tensor,
    *,
    positions: Tensor | None = None,
    keep: Callable[[LayerRows], Any] = _nothing,
    before: Prefix | None = None,
) -> tuple[Prefix, Forward]:
    """Run the tokens `ids` (token,) once; what `positions` attend to is kept by `keep`.

    `before`: an earlier part of the same prompt; positions count from the prompt's first token.
    """
    past = 0 if before is None else before.length
    cache = DynamicCache(config=model.config) if before is None else expanded(before, 1)
    rows = torch.tensor([len(ids) - 1]) if positions is None else positions - past
    forward = recorded_forward(model, ids[None], rows, keep=keep, cache=cache, past=past)
    return Prefix(model, past + len(ids), cache), forward


def expanded(prefix: Prefix, count: int) -> Any:
    """A cache of `count` prompts that all begin with the prefix; growing it leaves the prefix."""
    cache = copy.copy(prefix.cache)
    cache.layers = [_expanded_layer(layer, count) for layer in prefix.cache.layers]
    return cache


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


def suffix_blocks(
    prefix: Prefix,
    suffixes: Tensor,
    *,
    keep: Callable[[LayerRows], Any],
    block: int = 0,
) -> Iterator[SuffixBlock]:
    """Run suffixes (query, token) in blocks of `block` queries (0: all at once).

    What the last token of each suffix attends to is kept by `keep`; logits are those there.
    """
    size = block or len(suffixes)
    last = torch.tensor([suffixes.shape[1] - 1])
    for start in range(0, len(suffixes), size):
        ids = suffixes[start : start + size]
        cache = expanded(prefix, len(ids))
        forward = recorded_forward(
            prefix.model, ids, last, keep=keep, cache=cache, past=prefix.length
        )
        yield SuffixBlock(slice(start, start + len(ids)), forward, cache)
