"""Attention rows over a context's examples: what the row test is given."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.attention import LayerRows
from probes.capture import the_module
from probes.prefix import Prefix, run_prefix, suffix_blocks
from probes.readout import greedy_answers

PARTS = ("x", "y", "separator", "all")
KINDS = ("score", "weight")


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
    seconds: dict[str, float]


def reduction(parts: Any) -> Callable[[LayerRows], Tensor]:
    """Reduce keys to (part, kind, example) by the mean over each example's tokens of the part.

    Gives (batch, query, head, part, kind, example), NaN where a token of the part is hidden.
    """
    tokens = [torch.as_tensor(np.asarray(parts[name])) for name in PARTS]
    shapes = [t.shape for t in tokens]
    index = torch.cat([t.reshape(-1) for t in tokens])

    def keep(rows: LayerRows) -> Tensor:
        columns = (index - rows.first_key).to(rows.scores.device)
        before_window = columns < 0
        columns = columns.clamp(0, rows.scores.shape[-1] - 1)
        scores = rows.scores.index_select(-1, columns).masked_fill(before_window, -torch.inf)
        weights = rows.weights.index_select(-1, columns)
        hidden = torch.isinf(scores)
        both = torch.stack([scores, weights], -2).masked_fill(hidden[..., None, :], torch.nan)
        split = both.split([int(s.numel()) for s in shapes], -1)
        means = [v.unflatten(-1, tuple(s)).mean(-1) for v, s in zip(split, shapes, strict=True)]
        return torch.stack(means, -3).transpose(1, 2).cpu()

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


def _query_rows(
    loaded: Any, prefix: Prefix, tokenized: Tokens, answer_tokens: int, block: int
) -> tuple[list[dict[int, Tensor]], list[str], float]:
    kept: list[dict[int, Tensor]] = []
    answers: list[str] = []
    answering = 0.0
    suffixes = torch.as_tensor(np.asarray(tokenized.suffixes))
    keep = reduction(tokenized.parts)
    for part in suffix_blocks(prefix, suffixes, keep=keep, block=block):
        kept.append(part.forward.kept)
        if answer_tokens:
            began = time.perf_counter()
            logits = part.forward.logits[:, -1]
            answers += greedy_answers(
                prefix.model, loaded.tokenizer, part.cache, logits, tokens=answer_tokens
            )
            answering += time.perf_counter() - began
    return kept, answers, answering


def context_rows(
    loaded: Any,
    tokenized: Tokens,
    *,
    prefix_rows: bool = True,
    answer_tokens: int = 8,
    block: int = 0,
    shared: Prefix | None = None,
) -> ContextRows:
    """Rows of every query, and of every example's own answer position, from two forwards.

    `loaded`: a loaded model (its tokenizer decodes the answers). `answer_tokens`: longest answer,
    0 for none. `block`: suffixes run at once (0: all). `shared`: the first tokens of the prompt,
    already run. Nothing is kept between calls.
    """
    began = time.perf_counter()
    model = the_module(loaded)
    ids = torch.as_tensor(np.asarray(tokenized.prefix))
    positions = torch.as_tensor(np.asarray(tokenized.prefix_answers)) if prefix_rows else None
    keep = {"keep": reduction(tokenized.parts)} if prefix_rows else {}
    start = 0 if shared is None else shared.length
    prefix, forward = run_prefix(model, ids[start:], positions=positions, before=shared, **keep)
    kept, answers, answering = _query_rows(loaded, prefix, tokenized, answer_tokens, block)
    query = _collect(kept)
    forwards = time.perf_counter() - began - answering
    return ContextRows(
        query=query,
        prefix=_prefix_rows(forward.kept) if prefix_rows else None,
        answers=answers,
        layers=tuple(sorted(kept[0])),
        unseen=int(np.isnan(query[..., 0, :]).sum()),
        seconds={"forward": forwards, "answers": answering},
    )


def _collect(kept: Sequence[dict[int, Tensor]]) -> NDArray[np.float32]:
    return np.concatenate([_stack(block)[:, 0].numpy() for block in kept]).astype(np.float32)
