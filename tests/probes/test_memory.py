"""The memory budget: amounts as text, plans that grow with it, and peaks that stay within it."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from probes.memory import Plan, Prompts, default_budget, free_bytes, parse_bytes, plan, said_bytes
from probes.rows import PARTS, context_rows, planned_rows
from prompts.refusal import Refusal
from tests.probes.tiny_models import (
    WITH_ATTENTION,
    DigitTokenizer,
    hand_made_context,
    loaded,
    tiny_model,
)

MANY = Prompts(prefix=1000, suffix=20, queries=64, answer=8, rows=20, examples=20)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GB", 4 * 10**9), ("800MB", 8 * 10**8), ("2GiB", 2**31), ("1.5 gb", 15 * 10**8)],
)
def test_amounts(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["4", "GB", "-1GB", "0MB", "4 gigabytes", "1e3MB", ""])
def test_amounts_that_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="needed an amount of memory"):
        parse_bytes(text)


def test_an_amount_that_is_said_can_be_given() -> None:
    assert said_bytes(1_000_001) == "2MB"
    assert parse_bytes(said_bytes(123_456_789)) == 124 * 10**6


def test_half_of_what_is_free() -> None:
    cpu = torch.device("cpu")
    assert 0 < default_budget(cpu) <= free_bytes(cpu)
    assert free_bytes(cpu) > 10**8


def wide_llama() -> Any:
    """Two layers, as wide as a small language model."""
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1536,
        num_attention_heads=8,
        num_key_value_heads=8,
        num_hidden_layers=2,
        max_position_embeddings=2048,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()  # type: ignore[no-untyped-call]


def test_no_limit_is_all_at_once() -> None:
    found = plan(wide_llama(), MANY)
    assert (found.sharing, found.block) == ("packed", 64)


def test_a_smaller_budget_runs_fewer_queries_at_once() -> None:
    """Blocks fall as the budget does, and no plan needs more than its budget."""
    model = wide_llama()
    largest = plan(model, MANY).bytes
    budgets = np.linspace(largest, 105e6, 12).astype(int)
    plans = [plan(model, MANY, budget=int(budget)) for budget in budgets]
    assert plans[0] == plan(model, MANY)
    assert all(one.bytes <= budget for one, budget in zip(plans, budgets, strict=True))
    blocks = [one.block for one in plans[1:]]
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] == 64
    assert 1 <= blocks[-1] < 20
    assert {one.sharing for one in plans[1:]} == {"cached"}


def test_a_budget_that_holds_no_query_says_the_least() -> None:
    """With what the refusal asks for it runs, and with a hundredth less it does not."""
    model = wide_llama()
    with pytest.raises(Refusal, match=r"needed at least (\d+MB) of memory .* one query") as found:
        plan(model, MANY, budget=10**6)
    least = parse_bytes(str(found.value).split("at least ")[1].split(" of")[0])
    assert plan(model, MANY, budget=least).block >= 1
    with pytest.raises(Refusal):
        plan(model, MANY, budget=int(0.98 * least))


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_the_budget_does_not_change_the_rows(name: str) -> None:
    """Three queries at once, and one by one, which is all that the least budget holds."""
    model, tokenized = loaded(tiny_model(name)), hand_made_context()
    whole = context_rows(model, tokenized)
    ask = {"prefix_rows": True, "answer_tokens": 8}
    whole_plan: Plan = planned_rows(model, tokenized, memory=None, **ask)  # type: ignore[arg-type]
    one_by_one = context_rows(model, tokenized, memory=whole_plan.bytes - 1)
    assert one_by_one.answers == whole.answers
    assert one_by_one.layers == whole.layers
    np.testing.assert_allclose(one_by_one.query, whole.query, atol=1e-5, rtol=1e-5)
    ours, theirs = np.asarray(one_by_one.prefix), np.asarray(whole.prefix)
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)


def context_of(prefix: int, suffix: int, queries: int, examples: int) -> Any:
    """Random tokens; each example's first half is its x, its last token the separator."""
    wide = prefix // examples
    places = np.arange(wide * examples).reshape(examples, wide)
    kinds = places[:, : wide // 2], places[:, wide // 2 : -1], places[:, -1:], places
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        prefix=rng.integers(3, 1000, prefix),
        suffixes=rng.integers(3, 1000, (queries, suffix)),
        parts=dict(zip(PARTS, kinds, strict=True)),
        prefix_answers=places[:, wide // 2],
    )


def peak_over_model(budget: int) -> tuple[int, int]:
    """The largest memory over the loaded model in bytes, and the queries run at once (Linux)."""
    torch.set_num_threads(1)
    model = SimpleNamespace(model=wide_llama(), tokenizer=DigitTokenizer())
    context_rows(model, context_of(16, 4, 2, 2), answer_tokens=2)  # What torch needs once.
    tokenized = context_of(1000, 20, 64, 20)
    way = planned_rows(model, tokenized, prefix_rows=True, answer_tokens=2, memory=budget)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    context_rows(model, tokenized, answer_tokens=2, memory=budget)
    return _status("VmHWM") - before, way.block


def print_peaks(budgets: tuple[int, ...]) -> None:
    """`peak_over_model` of each budget, in a copy of this process that has run nothing yet."""
    for budget in budgets:
        child = os.fork()
        if child == 0:
            print(*peak_over_model(budget), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads peaks on Linux")
def test_the_budget_is_kept() -> None:
    """In a process of its own each: the smaller budget runs more blocks at a lower peak."""
    budgets = (400 * 10**6, 115 * 10**6)
    call = f"from tests.probes.test_memory import *; print_peaks({budgets})"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    (first, whole), (second, part) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert 0 < first <= budgets[0]
    assert 0 < second <= budgets[1]
    assert whole == 64
    assert part < 32
    assert second < 0.75 * first
