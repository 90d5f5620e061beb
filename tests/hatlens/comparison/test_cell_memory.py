"""What a cell holds at once does not depend on how many queries it has."""

import gc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from hatlens.comparison import cell
from hatlens.comparison.config import build_similarity
from hatlens.comparison.feed import SetFeed
from probes.run_records import RunRecord
from tests.probes.finetune_models import demonstrations, tiny_family
from tests.probes.three_runs_prompts import HandMadePrompts, hand_made

CHUNK, RUNS = 4, 6
"""Queries that are held at once, and the runs of each: three, another order, and neutral text, and
the query at its place."""


class Held(NamedTuple):
    """The most that was alive at once: records of runs, and bytes of torch tensors; then bytes of
    what the cell keeps for good."""

    records: int
    tensor_bytes: int
    kept_bytes: int


def many(count: int) -> HandMadePrompts:
    """So many queries of five tokens, each with its own labels."""
    prompts = hand_made()
    queries = demonstrations(*[5] * count, seed=500)
    behind = tuple(np.r_[62, 61, one[1:]] for one in queries)
    return replace(prompts, queries=queries, in_context=behind, labels=(prompts.labels[0],) * count)


def held(count: int) -> Held:
    prompts: Any = many(count)
    loaded: Any = SimpleNamespace(
        model=tiny_family("gpt2", scale=0.5), layers=2, heads=4, kv_heads=4
    )
    shown = np.concatenate(prompts.demonstrations)
    before = {"irrelevant": shown[::-1].copy(), "icl-order": np.roll(shown, 5)}
    norms: Any = hand_made()
    fed = SetFeed(prompts, None, None, before, norms)
    plan = cell.Plan(rate=0.01, target=None, twin=False, seed=(0,))
    records, tensor_bytes = [0], [0]

    def look(stage: str, done: int, total: int) -> None:
        if done % (total // 2) == 0:
            gc.collect()
            alive = gc.get_objects()
            records.append(sum(type(one) is RunRecord for one in alive))
            tensor_bytes.append(
                sum(one.nbytes for one in alive if issubclass(type(one), torch.Tensor))
            )

    arrays = cell.run_cell(build_similarity({}), loaded, fed, plan, look)
    return Held(max(records), max(tensor_bytes), sum(one.nbytes for one in arrays.values()))


def test_three_times_the_queries_take_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records: those of a chunk, and of the first query and the one before, which others are held
    against. What is kept grows by its numbers, under 5 kB a query of two layers."""
    monkeypatch.setattr(cell, "chunk_of", lambda *args: CHUNK)
    few, lots = held(20), held(60)
    assert 0 < few.records <= (CHUNK + 2) * RUNS
    assert lots.records <= few.records + RUNS
    assert lots.tensor_bytes <= 1.05 * few.tensor_bytes
    assert (lots.kept_bytes - few.kept_bytes) / 40 < 5e3
