"""Prompts that were just run, gone on from in several ways each."""

import copy
import inspect
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from probes.attention import NAME, Recorder, recording
from probes.continuation import CachedContinuation, Continuation, WholeContinuation
from probes.model_facts import (
    attention_implementation,
    cache_argument,
    forget_lengths,
    input_device,
)
from probes.shared_cache import CachedRecorder, GroupedLayer, SharedLayer

_LOGITS_AT_ONCE = 1 << 25
_TOKENS_AT_ONCE = 1 << 12
_COPIED_TOKENS_AT_ONCE = 1 << 15


def branched(continuation: Continuation, rows: Tensor, tokens: Tensor) -> tuple[Any, Tensor]:
    """Go on from the prompts `rows` (branch,), repeats allowed, with `tokens` (branch, token).

    Gives the continuation of the branches and the logits (branch, token, word) at each of their
    tokens; `continuation` itself stays as it was. A prefix that is held once is not copied.
    """
    if isinstance(continuation, WholeContinuation):
        return _whole(continuation, rows, tokens)
    if isinstance(continuation, CachedContinuation):
        return _cached(continuation, rows, tokens)
    raise TypeError(f"a continuation of a block is needed; came {type(continuation).__name__}")


def branches_at_once(continuation: Continuation, tokens: int, words: int) -> int:
    """How many branches of so many tokens fit one forward without much memory."""
    run = asked = tokens
    copied = 0
    if isinstance(continuation, WholeContinuation):
        run += continuation.ids.shape[1]
        asked = tokens if _few_logits(continuation.model) else run
    elif isinstance(continuation, CachedContinuation):
        shared = isinstance(continuation.cache.layers[0], SharedLayer)
        copied = tokens if shared else continuation.length
    limits = (
        _LOGITS_AT_ONCE // (asked * words),
        _TOKENS_AT_ONCE // run,
        _COPIED_TOKENS_AT_ONCE // max(1, copied),
    )
    return max(1, min(limits))


def _few_logits(model: Any) -> bool:
    return "logits_to_keep" in inspect.signature(model.forward).parameters


@torch.inference_mode()
def _whole(
    continuation: WholeContinuation, rows: Tensor, tokens: Tensor
) -> tuple[WholeContinuation, Tensor]:
    model = continuation.model
    known = continuation.ids[rows.to(continuation.ids.device)]
    ids = torch.cat([known, tokens.to(known.device)], 1)
    forget_lengths(model)
    count = tokens.shape[1]
    options = {"logits_to_keep": count} if _few_logits(model) else {}
    logits: Tensor = model(input_ids=ids.to(input_device(model)), use_cache=False, **options).logits
    return WholeContinuation(model, ids), logits[:, -count:].float()


@torch.inference_mode()
def _cached(
    continuation: CachedContinuation, rows: Tensor, tokens: Tensor
) -> tuple[CachedContinuation, Tensor]:
    model, past = continuation.model, continuation.length
    cache = _chosen(continuation.cache, rows)
    nothing = torch.tensor([0])
    recorder: Recorder = Recorder(nothing, past, None)
    if isinstance(cache.layers[0], SharedLayer):
        recorder = CachedRecorder(nothing, past, None, cache=cache)
    arguments = {cache_argument(model): cache, "use_cache": True}
    with attention_implementation(model, NAME), recording(recorder):
        logits: Tensor = model(input_ids=tokens.to(input_device(model)), **arguments).logits
    return CachedContinuation(model, cache, past + tokens.shape[1]), logits.float()


def _chosen(cache: Any, rows: Tensor) -> Any:
    chosen = copy.copy(cache)
    chosen.layers = [_chosen_layer(layer, rows) for layer in cache.layers]
    return chosen


def _chosen_layer(layer: Any, rows: Tensor) -> Any:
    plain = isinstance(layer, DynamicLayer) and not hasattr(layer, "conv_states")
    if not plain and not isinstance(layer, SharedLayer):
        # Recurrent states are updated in place, so each branch gets its own.
        layer = copy.deepcopy(layer)
        layer.reorder_cache(rows)
        return layer
    layer = copy.copy(layer)
    if isinstance(layer, GroupedLayer):
        layer.group = layer.group[rows.to(layer.group.device)]
    if layer.keys is not None:
        rows = rows.to(layer.keys.device)
        layer.keys, layer.values = layer.keys[rows], layer.values[rows]
    return layer
