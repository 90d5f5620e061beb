"""What a model writes after each query of a task, under any run."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch

from probes.blocks import Ask, run_blocks
from probes.model_facts import sharing, the_module
from probes.readout import greedy_answers
from probes.scores import LayerRows
from probes.three_runs_queries import Condition, Prompts, Tokens, weights_of


def query_answers(
    loaded: Any, prompts: Prompts, condition: Condition, *, tokens: int, block: int = 32
) -> list[str]:
    """The greedy answer to each query, in order, of at most `tokens` tokens; see `greedy_answers`.

    Behind the tokens of `condition` a query is run as `in_context` cuts it, else as `queries` does;
    position ids are not shifted. Queries of equal length are run together, `block` at a time.
    """
    model = the_module(loaded)
    bos = np.array([] if prompts.bos is None else [prompts.bos], dtype=np.int64)
    before = np.r_[bos, condition.before]
    queries = prompts.in_context if len(condition.before) else prompts.queries
    found: dict[int, str] = {}
    with weights_of(condition):
        for prefix, some in _batches(before, queries):
            asked = torch.as_tensor(
                np.stack([queries[i][-_own(queries[i], before) :] for i in some])
            )
            ask = Ask(torch.as_tensor(prefix), asked, None, _nothing)
            how = sharing(model, len(prefix) + asked.shape[1] + tokens)
            for part in run_blocks(model, ask, how=how, block=block):
                assert part.continuation is not None
                texts = greedy_answers(
                    part.continuation, part.logits, loaded.tokenizer, tokens=tokens
                )
                found.update(zip(some[part.queries], texts, strict=True))
    return [found[query] for query in range(len(queries))]


def _own(query: Tokens, before: Tokens) -> int:
    """How many of a query's tokens are run behind a prefix, which must not be empty."""
    return len(query) - (len(before) == 0)


def _batches(before: Tokens, queries: Sequence[Tokens]) -> Iterator[tuple[Tokens, list[int]]]:
    """Queries of equal length behind one prefix, which is their first token where none is given."""

    def key(place: int) -> tuple[int, int]:
        query = queries[place]
        return len(query), -1 if len(before) else int(query[0])

    for (_, first), places in groupby(sorted(range(len(queries)), key=key), key=key):
        yield before if len(before) else np.array([first], dtype=np.int64), list(places)


def _nothing(rows: LayerRows) -> None:
    """Nothing is kept of attention."""
