"""The capture benchmark runs on a tiny random model, and what it compares is the same thing."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(FOLDER))
sides, worker, benchmark = (
    importlib.import_module(name) for name in ("capture_sides", "capture_worker", "capture")
)
SHAPE = sides.long_prompt(60)
OPTIONS = SimpleNamespace(rounds=2, threads=1, limit=4.0)
KEYS = {
    *("model", "shape", "shared_prefix", "seconds", "bytes", "ratio_seconds", "ratio_bytes"),
    *("overhead", "processor_seconds", "ratio_processor_seconds", "overhead_processor"),
    *("bytes_a_token", "missing", "rounds", "threads", "versions"),
}


def test_a_context_fills_the_prompt_and_its_parts_end_where_its_lines_end() -> None:
    context = sides.context_of(SHAPE, 1000, queries=3)
    # 60 tokens: a query of 14 behind 2 lines of 19 and 8 others.
    assert len(context.prefix) == 46
    assert context.suffixes.shape == (3, 14)
    assert context.parts["all"].tolist() == [list(range(8, 27)), list(range(27, 46))]
    assert SHAPE.unique_tokens == 60 + 7 * 14


def test_the_default_study_has_the_tokens_of_one() -> None:
    assert (sides.STUDY.prompt_tokens, sides.STUDY.unique_tokens) == (394, 492)


@pytest.mark.parametrize("peer", ["hf_eager", "hf_eager_one_logit", "tl_cache", "nnsight"])
def test_a_peer_gives_the_weights_that_ours_averages(peer: str) -> None:
    if peer == "nnsight":
        pytest.importorskip("nnsight")
    context = sides.context_of(SHAPE, 1000, queries=1)
    ours = sides.ours("tiny-llama")(context)
    weights = sides.PEERS[peer]("tiny-llama")(context).numpy()
    assert weights.shape == (2, 4, 60)
    whole_lines = weights[..., context.parts["all"]].mean(-1)
    np.testing.assert_allclose(ours.query[0, :, :, 3, 1], whole_lines, atol=1e-6)


def in_process(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (worker.memory if job["what"] == "memory" else worker.seconds)(job)


@pytest.mark.usefixtures("frozen_heap")
def test_it_prints_the_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object a shape and kind of sharing; what is missing is said in words, never a number."""
    monkeypatch.setattr(benchmark, "work", in_process)
    monkeypatch.setattr(worker, "limit_memory", lambda limit: None)
    line = ["capture.py", "--json", "--models", "tiny-llama", "--only", "60", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*line, "--threads", "1"])
    benchmark.main()
    shared, whole = json.loads(capsys.readouterr().out)
    assert (shared["shared_prefix"], whole["shared_prefix"]) == (True, False)
    for one in (shared, whole):
        assert set(one) == KEYS
        for kind in ("seconds", "bytes", "processor_seconds", "bytes_a_token"):
            assert set(one[kind]) == set(sides.SIDES)
        for kind in ("ratio_seconds", "ratio_bytes", "ratio_processor_seconds"):
            assert set(one[kind]) == set(sides.PEERS)
        assert min(one["seconds"]["ours"], one["seconds"]["hf_eager"]) > 0
        for side in set(sides.SIDES) - set(one["missing"]):
            assert one["seconds"][side] is not None
        for side, text in one["missing"].items():
            assert one["seconds"][side] is None, text


def test_ratios_are_medians_over_rounds_of_times_a_query() -> None:
    """Ours takes 8 s for 8 queries (1 s each), then 16 s; the peer 6 s and 8 s a prompt."""
    found = benchmark.Found("tiny-llama", [SHAPE], OPTIONS)
    times = {("ours", 8): (8, 16), ("plain_forward", 8): (8, 10), ("hf_eager", 1): (6, 8)}
    for (side, queries), runs in times.items():
        found.taken[SHAPE.name, side, queries] = {
            turn: {"clock": float(clock), "processor": 1.0} for turn, clock in enumerate(runs)
        }
    found.bytes = {(SHAPE.name, "ours", 8): 10, (SHAPE.name, "hf_eager", 1): 300}
    found.missing = {(SHAPE.name, "tl_cache"): "out of memory"}
    one = next(found.objects())
    assert one["seconds"]["ours"] == 1.5
    assert one["seconds"]["hf_eager"] == 7
    assert one["ratio_seconds"]["hf_eager"] == (6 / 1 + 8 / 2) / 2
    assert one["overhead"] == (8 / 8 + 16 / 10) / 2
    assert one["ratio_bytes"]["hf_eager"] == 30
    assert one["ratio_seconds"]["tl_cache"] is None
    assert one["missing"] == {"tl_cache": "out of memory"}


def test_failures_are_said_in_a_line() -> None:
    refused = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")
    assert worker.why(refused, 5e9) == "out of memory: needs more than 5 GB over the model"
    assert worker.why(ImportError("No module named 'nnsight'"), 1).startswith("not installed: No")
    assert worker.why(KeyError("x"), 1) == "KeyError: 'x'"


def test_long_prompts_take_fewer_rounds() -> None:
    rounds = [benchmark.rounds_of(sides.long_prompt(n), 5) for n in (394, 512, 1536, 4096)]
    assert rounds == [5, 5, 3, 1]


@pytest.mark.skipif(not worker.STATUS.exists(), reason="reads /proc")
def test_the_peak_is_that_of_what_ran_last() -> None:
    """200 MB are taken and given back, then 50 MB: only the second counts."""
    worker.resident_bytes()
    torch.ones(50_000_000)
    base = worker.resident_bytes()
    worker.forget_peak()
    torch.ones(12_500_000)
    assert 49e6 < worker.peak_bytes() - base < 60e6
