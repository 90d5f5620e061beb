"""Prompts of one context, run up to their last token, which is then run as often as is wanted.

What is changed or read at the answer position only leaves everything before it as it was. So the
prefix and the queries run once, and each change costs one token a query.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from probes.attention import LayerCall, Recorder
from probes.blocks import Block
from probes.continuation import CachedContinuation, WholeContinuation
from probes.forward import recorded_logits
from probes.model_facts import attention_path, model_name, sharing, the_module
from probes.prefix import expanded, run_prefix
from probes.scores import KeyValues
from probes.shared_cache import CachedRecorder, SharedLayer, can_share_layers, shared_cache
from prompts.refusal import Refusal

Observe = Callable[[LayerCall, KeyValues, int], None]
"""Given each layer's call, all its keys and values, and the position of the first of them."""

ANSWER_TOKENS = 16


class Prompts(Protocol):
    """What is needed of a tokenized context."""

    @property
    def prefix(self) -> NDArray[np.int64]: ...
    @property
    def suffixes(self) -> NDArray[np.int64]: ...


@dataclass
class _Watching(Recorder):
    observe: Observe | None = None

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        super().record(call, keys)
        _show(self, call, keys)


@dataclass
class _WatchingShared(CachedRecorder):
    observe: Observe | None = None

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        super().record(call, keys)
        _show(self, call, keys)


def _show(recorder: Any, call: LayerCall, keys: KeyValues) -> None:
    if recorder.observe is not None:
        first = recorder.past + call.query.shape[2] - keys.length
        recorder.observe(call, keys, first)


@dataclass(frozen=True)
class AnswerStep:
    """The queries of one context, all but the last token of each already run.

    `position`: the answer position, from which the model predicts the answer's first token,
    counted from the prompt's first. `last` (query,): the tokens there. `cache` holds all tokens
    before; None where nothing may be shared: then `whole` (query, token) runs in full. `first`:
    number of the first query.
    """

    model: Any
    position: int
    last: Tensor
    cache: Any
    whole: Tensor | None
    first: int = 0

    def run(self, observe: Observe | None = None) -> Block:
        """Run the last token of every query; nothing that is held here changes.

        Hooks see tensors whose last token is the answer position, one query an item of the batch.
        The block's continuation goes on from there. Refuses to observe a family that bypasses the
        attention interface.
        """
        cache, row = _kept_apart(self.cache), torch.tensor([0])
        queries = slice(self.first, self.first + len(self.last))
        if self.whole is not None:
            return self._in_full(queries, self.whole, observe)
        recorder = _recorder(cache, row, self.position, observe)
        logits = recorded_logits(self.model, self.last[:, None], row, recorder, cache=cache)
        continuation = CachedContinuation(self.model, cache, self.position + 1)
        return Block(queries, None, {}, logits[:, 0], continuation)

    def _in_full(self, queries: slice, ids: Tensor, observe: Observe | None) -> Block:
        if observe is None:
            continuation = WholeContinuation(self.model, ids[:, :-1])
            return Block(queries, None, {}, continuation.next_logits(ids[:, -1]), continuation)
        if attention_path(self.model) == "eager":
            raise Refusal(
                "needed a family that hands its values to the attention interface, came "
                f"{self.model.config.model_type!r}",
                where=model_name(self.model),
            )
        last = torch.tensor([ids.shape[1] - 1])
        logits = recorded_logits(self.model, ids, last, _Watching(last, 0, None, observe=observe))
        return Block(queries, None, {}, logits[:, 0], WholeContinuation(self.model, ids))

    def apart(self) -> tuple["AnswerStep", ...]:
        """This step, or one a query where prompts run in full.

        Whoever reads answers there runs prompts again, several a query, so that changes which
        differ by query need a batch of one query.
        """
        if self.whole is None:
            return (self,)
        return tuple(
            replace(self, last=self.last[[i]], whole=self.whole[[i]], first=i)
            for i in range(len(self.last))
        )

    @property
    def held_bytes(self) -> int:
        """Memory of the keys, values and states that are held."""
        layers = [] if self.cache is None else self.cache.layers
        held = {id(part): part for layer in layers for part in vars(layer).values()}
        return sum(part.nbytes for part in held.values() if isinstance(part, Tensor))


def answer_step(
    model: Any, tokenized: Prompts, *, answer_tokens: int = ANSWER_TOKENS
) -> AnswerStep:
    """Run a context's shared prefix once and each query up to its last token.

    `answer_tokens`: the longest answer that is read afterwards; prefixes are shared only where
    that is exact for the prompt with its answer.
    """
    module = the_module(model)
    prefix = torch.as_tensor(np.asarray(tokenized.prefix), dtype=torch.long)
    suffixes = torch.as_tensor(np.asarray(tokenized.suffixes), dtype=torch.long)
    position = len(prefix) + suffixes.shape[1] - 1
    how = sharing(module, position + 1 + answer_tokens)
    if how == "whole":
        ids = torch.cat([prefix.expand(len(suffixes), -1), suffixes], 1)
        return AnswerStep(module, position, suffixes[:, -1], None, ids)
    first, _ = run_prefix(module, prefix, positions=None, keep=lambda rows: None)
    shared = how != "expanded" and can_share_layers(first.cache)
    cache = shared_cache(first.cache) if shared else expanded(first.cache, len(suffixes))
    if suffixes.shape[1] > 1:
        row = torch.tensor([suffixes.shape[1] - 2])
        recorder = _recorder(cache, row, len(prefix), None)
        recorded_logits(module, suffixes[:, :-1], row, recorder, cache=cache)
    return AnswerStep(module, position, suffixes[:, -1], cache, None)


def _recorder(cache: Any, rows: Tensor, past: int, observe: Observe | None) -> Recorder:
    if isinstance(cache.layers[0], SharedLayer):
        return _WatchingShared(rows, past, None, cache=cache, observe=observe)
    return _Watching(rows, past, None, observe=observe)


def _kept_apart(cache: Any) -> Any:
    """A cache that may grow and leaves this one as it is."""
    if cache is None:
        return None
    grown = copy.copy(cache)
    plain = (SharedLayer, DynamicLayer, DynamicSlidingWindowLayer)
    # Layers of keys and values join what is new to what is held in a new tensor; recurrent
    # states are updated in place.
    grown.layers = [
        copy.copy(layer) if type(layer) in plain else copy.deepcopy(layer) for layer in cache.layers
    ]
    return grown
