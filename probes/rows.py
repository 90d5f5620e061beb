"""Attention rows over a context's examples: what the row test is given."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.blocks import Ask, run_blocks
from probes.memory import Plan, Prompts, plan
from probes.model_facts import Sharing, sharing, the_module
from probes.prefix import run_prefix
from probes.readout import greedy_answers
from probes.scores import LayerRows

PARTS = ("x", "y", "separator", "all")
KINDS = ("score", "weight")

# A hidden key's score of -inf would make every mean NaN; so low a one only marks its own.
_BELOW_ANY_SCORE, _BELOW_ANY_MEAN = -1e30, -1e20


class Tokens(Protocol):
    """What rows need to know of a tokenized context."""

    @property
    def prefix(self) -> NDArray[np.int64]: ...
    @property
    def suffixes(self) -> NDArray[np.int64]: ...
    @property
    def parts(self) -> Any: ...
    @property
    def prefix_answers(self) -> NDArray[np.int64]: ...


class ContextRows(NamedTuple):
    """Attention to each example of a context, and the model's answers.

    `query` float32 (query, layer, head, part, kind, example): from the position that predicts the
    first digit of each query's answer. `prefix` (example, layer, head, part, kind, example): the
    same from each example's own answer position to the examples before it, NaN elsewhere; None
    where not asked. Each value is the mean over the tokens of the part; parts are `PARTS`, kinds
    `KINDS`. NaN: the example is not seen (outside a sliding window); `unseen` counts those of
    `query` over heads, parts and one kind. `layers`: the model's index of each layer.
    `answers`: greedy texts, one a query. `seconds`: time of the forwards and of the answers.
    """

    query: NDArray[np.float32]
    prefix: NDArray[np.float32] | None
    answers: list[str]
    layers: tuple[int, ...]
    unseen: int
    sharing: Sharing
    seconds: dict[str, float]


class _Bags(NamedTuple):
    """Tokens whose mean is taken, one bag after another: every example of the first part, ...

    `starts` (bag,): where each begins in `tokens`. `first` (bag,): its earliest token. `empty`.
    """

    tokens: Tensor
    starts: Tensor
    first: Tensor
    empty: Tensor

    def mean(self, keys: Tensor) -> Tensor:
        """(..., bag) of (..., key): 0 for an empty bag."""
        by_key = keys.flatten(0, -2).t().contiguous()
        tokens, starts = self.tokens.to(keys.device), self.starts.to(keys.device)
        means = nn.functional.embedding_bag(tokens, by_key, starts, mode="mean")
        return means.t().reshape(*keys.shape[:-1], -1)


def _bags(parts: Any) -> _Bags:
    """Of parts with as many tokens in every example, (example, token) each."""
    each = [torch.as_tensor(np.asarray(parts[name]), dtype=torch.long) for name in PARTS]
    sizes = torch.cat([torch.full(part.shape[:1], part.shape[1]) for part in each])
    first = [part.amin(1) if part.shape[1] else part.new_zeros(len(part)) for part in each]
    tokens = torch.cat([part.flatten() for part in each])
    return _Bags(tokens, sizes.cumsum(0) - sizes, torch.cat(first), sizes == 0)


def reduction(parts: Any) -> Callable[[LayerRows], Tensor]:
    """Reduce keys to (part, kind, example) by the mean over each example's tokens of the part.

    Gives (batch, query, head, part, kind, example), NaN where a token of the part is hidden.
    """
    bags = _bags(parts)
    examples = len(parts[PARTS[-1]])

    def keep(rows: LayerRows) -> Tensor:
        before = (rows.first_key, 0)
        missing = (bags.empty | (bags.first < rows.first_key)).to(rows.scores.device)
        scores = bags.mean(nn.functional.pad(rows.scores.clamp(min=_BELOW_ANY_SCORE), before))
        weights = bags.mean(nn.functional.pad(rows.weights, before))
        hidden = (scores < _BELOW_ANY_MEAN).logical_or_(missing)
        kinds = torch.stack([scores, weights], -2).masked_fill_(hidden[..., None, :], torch.nan)
        split = torch.unflatten(kinds, -1, (len(PARTS), examples))
        return split.permute(0, 2, 1, 4, 3, 5).cpu()

    return keep


def _stack(kept: dict[int, Tensor]) -> Tensor:
    """(batch, query, layer, head, part, kind, example)"""
    return torch.stack([kept[layer] for layer in sorted(kept)], 2)


def _prefix_rows(kept: dict[int, Tensor]) -> NDArray[np.float32]:
    rows = np.array(_stack(kept)[0].numpy(), dtype=np.float32)
    examples = np.arange(rows.shape[-1])
    not_before = examples[None, :] >= examples[:, None]
    rows[np.broadcast_to(not_before[:, None, None, None, None, :], rows.shape)] = np.nan
    return rows


def _ids(values: NDArray[np.int64]) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.long)


def context_rows(
    loaded: Any,
    tokenized: Tokens,
    *,
    prefix_rows: bool = True,
    answer_tokens: int = 8,
    block: int = 0,
    memory: int | None = None,
) -> ContextRows:
    """Rows of every query, and of every example's own answer position, from one pass.

    `loaded`: a loaded model (its tokenizer decodes the answers). `answer_tokens`: longest answer,
    0 for none. `block`: queries run at once (0: as many as `memory` holds). `memory`: bytes over
    the loaded model that this may take (None: no limit); the rows do not depend on it beyond
    rounding. Nothing is kept between calls.
    """
    model = the_module(loaded)
    ask = Ask(
        prefix=_ids(tokenized.prefix),
        suffixes=_ids(tokenized.suffixes),
        positions=_ids(tokenized.prefix_answers) if prefix_rows else None,
        keep=reduction(tokenized.parts),
        go_on=answer_tokens > 0,
    )
    examples = len(tokenized.parts[PARTS[-1]])
    way = plan(model, _prompts(ask, answer_tokens, examples), budget=memory)
    return _rows_of(loaded, model, ask, answer_tokens, way._replace(block=block or way.block))


def _prompts(ask: Ask, answer_tokens: int, examples: int) -> Prompts:
    return Prompts(
        prefix=ask.past + len(ask.prefix),
        suffix=ask.suffixes.shape[1],
        queries=len(ask.suffixes),
        answer=answer_tokens,
        rows=0 if ask.positions is None else len(ask.positions),
        examples=examples,
    )


def planned_rows(
    loaded: Any, tokenized: Tokens, *, prefix_rows: bool, answer_tokens: int, memory: int | None
) -> Plan:
    """How `context_rows` would run this context."""
    ask = Ask(
        _ids(tokenized.prefix),
        _ids(tokenized.suffixes),
        _ids(tokenized.prefix_answers) if prefix_rows else None,
        keep=lambda rows: rows,
    )
    examples = len(tokenized.parts[PARTS[-1]])
    return plan(the_module(loaded), _prompts(ask, answer_tokens, examples), budget=memory)


def _rows_of(loaded: Any, model: Any, ask: Ask, answer_tokens: int, way: Plan) -> ContextRows:
    kept: list[dict[int, Tensor]] = []
    of_prefix: dict[int, Tensor] | None = None
    answers: list[str] = []
    began, answering = time.perf_counter(), 0.0
    for part in run_blocks(model, ask, how=way.sharing, block=way.block):
        kept.append(part.kept)
        of_prefix = of_prefix or part.of_prefix
        if part.continuation is not None and answer_tokens:
            started = time.perf_counter()
            answers += greedy_answers(
                part.continuation, part.logits, loaded.tokenizer, tokens=answer_tokens
            )
            answering += time.perf_counter() - started
    query = np.concatenate([_stack(one)[:, 0].numpy() for one in kept])
    return ContextRows(
        query=query,
        prefix=None if of_prefix is None else _prefix_rows(of_prefix),
        answers=answers,
        layers=tuple(sorted(kept[0])),
        unseen=int(np.isnan(query[..., 0, :]).sum()),
        sharing=way.sharing,
        seconds={"forward": time.perf_counter() - began - answering, "answers": answering},
    )


def _common_length(a: Tensor, b: Tensor) -> int:
    shorter = min(len(a), len(b))
    differ = (a[:shorter] != b[:shorter]).nonzero()
    return int(differ[0]) if len(differ) else shorter


def pair_rows(
    loaded: Any,
    a: Tokens,
    b: Tokens,
    *,
    answer_tokens: int = 0,
    block: int = 0,
    memory: int | None = None,
) -> tuple[ContextRows, ContextRows]:
    """Query rows of two contexts whose prompts begin alike; their common tokens run once.

    No prefix rows. Options as those of `context_rows`. Equal to one `context_rows` each; costs it
    where nothing may be shared.
    """
    model = the_module(loaded)
    first, second = _ids(a.prefix), _ids(b.prefix)
    # At least one token of the second prefix is left to run.
    common = min(_common_length(first, second), len(first) - 1, len(second) - 1)
    length = max(len(first), len(second)) + a.suffixes.shape[1] + answer_tokens
    before = None
    if common > 0 and sharing(model, length) != "whole":
        before, _ = run_prefix(model, first[:common], positions=None, keep=reduction(a.parts))
    start = 0 if before is None else common
    both = []
    for tokenized, ids in ((a, first), (b, second)):
        keep = reduction(tokenized.parts)
        go_on = answer_tokens > 0
        ask = Ask(ids[start:], _ids(tokenized.suffixes), None, keep, before, go_on)
        way = plan(
            model, _prompts(ask, answer_tokens, len(tokenized.parts[PARTS[-1]])), budget=memory
        )
        both.append(
            _rows_of(loaded, model, ask, answer_tokens, way._replace(block=block or way.block))
        )
    return both[0], both[1]
