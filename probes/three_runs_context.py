"""What the demonstrations of a prompt are to a model, and which of their tokens were learnt."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probes.model_facts import attention_layers, the_module
from probes.projections import tapped
from probes.run_records import Floats, as_array, outer_sum
from probes.three_runs_place import ready, seen_at_last
from probes.three_runs_queries import Prompts, Tokens, joined


class ContextRecord(NamedTuple):
    """Of the tokens between <bos> and the queries, float32 (float64 where the model is).

    `keys`, `queries` (layer, token, head, dim): before rotation, keys by key/value head. `inputs`
    (layer, token, width): what the query, key and value projections read. `update` (layer,
    key/value head, value dim, key dim): the sum of v k' as attention used them, rotated.
    """

    layers: tuple[int, ...]
    keys: Floats
    queries: Floats
    inputs: Floats
    update: Floats


class LearntTokens(NamedTuple):
    """Tokens that stand in the prompt's demonstrations and were learnt too, in their order.

    `shown` (token,): their place among the tokens between <bos> and the queries. `learnt`
    (token,): their place among the tokens of the demonstrations as they were learnt, one behind
    the other. `demonstration` (token,): which they belong to, from 0. `left_out`: how many tokens
    of the prompt have no match.
    """

    shown: NDArray[np.int64]
    learnt: NDArray[np.int64]
    demonstration: NDArray[np.int64]
    left_out: int


def context_record(loaded: Any, prompts: Prompts, *, skip: int = 0) -> ContextRecord:
    """What the demonstrations of the prompt are, from one forward over them.

    `skip`: tokens behind <bos> that belong to no demonstration (a chat template's system text);
    they are read, and left out of every array.
    """
    module = the_module(loaded)
    bos = [] if prompts.bos is None else [prompts.bos]
    ids = torch.as_tensor(joined(prompts.demonstrations))[None]
    before = np.array(bos, dtype=np.int64)
    place = ready(module, before, skip=len(bos), shift=0, longest=ids.shape[1])
    with tapped(module) as found:
        seen, _ = seen_at_last(place, ids, torch.tensor([ids.shape[1] - 1]), own=ids.shape[1])
    own = slice(len(bos) + skip, None)
    update = [outer_sum(k.key[:, :, own], k.value[:, :, own]) for _, k in sorted(seen.kept.items())]
    keys, queries, inputs = (
        torch.stack([kept[layer][0, own].cpu() for layer in sorted(kept)])
        for kept in (found.keys, found.queries, found.inputs)
    )
    return ContextRecord(
        attention_layers(module),
        as_array(keys),
        as_array(queries),
        as_array(inputs),
        as_array(torch.cat(update)),
    )


def learnt_tokens(shown: Sequence[Tokens], learnt: Sequence[Tokens]) -> LearntTokens:
    """Which tokens of the demonstrations as shown are the same as learnt, one by one.

    The two differ by <bos>, the separator, and where a first word is cut otherwise.
    """
    places: list[tuple[int, int, int]] = []
    before = [0, 0]
    for demonstration, (a, b) in enumerate(zip(shown, learnt, strict=True)):
        matcher = SequenceMatcher(None, a.tolist(), b.tolist(), autojunk=False)
        for match in matcher.get_matching_blocks():
            places += [
                (before[0] + match.a + i, before[1] + match.b + i, demonstration)
                for i in range(match.size)
            ]
        before = [before[0] + len(a), before[1] + len(b)]
    found = np.array(places, dtype=np.int64).reshape(-1, 3)
    return LearntTokens(found[:, 0], found[:, 1], found[:, 2], before[0] - len(places))
