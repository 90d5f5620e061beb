"""The similarity benchmark on a tiny model: its keys, and that its sides run the same prompts."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from probes.models import load_model
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from tests.hatlens.comparison.tiny_task import write_llama, write_task

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
benchmark, timing = (importlib.import_module(name) for name in ("similarity", "timed_run"))


def test_it_prints_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["similarity.py", "--json", "--model", str(write_llama(tmp_path / "llama"))]
    line += [
        "--task",
        str(write_task(tmp_path)),
        "--demos",
        "3",
        "--queries",
        "4",
        "--peer-queries",
        "2",
    ]
    monkeypatch.setattr(sys, "argv", [*line, "--memory-queries", "2", "6"])
    benchmark.main()
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {"seconds", "ratio", "processor_ratio", "bytes", "goal"}
    assert set(found["seconds"]) == {benchmark.OURS, *benchmark.PEERS}
    assert set(found["ratio"]) == set(found["processor_ratio"]) == set(benchmark.PEERS)
    assert set(found["bytes"]) == {"2", "6"}
    assert min(found["seconds"].values()) > 0
    assert found["demonstration_tokens"] > 3 * found["query_tokens"] - 20


def test_ratios_are_medians_over_rounds_of_times_a_query() -> None:
    """Ours takes 2 s and 4 s for 4 queries, the peer 8 s and 40 s for 2: .5 s and 1 s a query
    against 4 s and 20 s."""
    taken = {
        name: [timing.Taken(clock, 1.0) for clock in clocks]
        for name, clocks in (("ours", (2, 4)), *((peer, (8, 40)) for peer in benchmark.PEERS))
    }
    found = benchmark.costs(taken, {"ours": 4, **dict.fromkeys(benchmark.PEERS, 2)})
    assert found["seconds"]["ours"] == 0.75
    assert found["ratio"]["plain_forward"] == (4 / 0.5 + 20 / 1) / 2
    assert found["processor_ratio"]["plain_forward"] == 2


def test_both_sides_run_the_same_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer's last logits are those of the runs behind shared demonstrations."""
    loaded = load_model(str(write_llama(tmp_path / "llama")))
    options = benchmark.argparse.Namespace(model="", task=str(write_task(tmp_path)), demos=3)
    prompts = benchmark.prompts_of(options, loaded, 3)
    seen: list[torch.Tensor] = []
    hook = loaded.model.register_forward_hook(
        lambda _, __, output: seen.append(output.logits[0, -1].log_softmax(-1))
    )
    benchmark.run_whole(loaded, prompts, 3)
    hook.remove()
    before = Condition(np.concatenate(prompts.demonstrations))
    for one in run_conditions(loaded, prompts, {"icl": before}):
        ours = one.runs["icl"].next_logp
        np.testing.assert_allclose(ours, seen[one.query].numpy(), atol=1e-4)
