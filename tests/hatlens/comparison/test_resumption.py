"""A run that is stopped keeps its finished cells, and what is asked for later runs none again."""

import json
from pathlib import Path
from typing import Any

import pytest

from hatlens.comparison import study
from hatlens.comparison.cell import run_cell
from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import run_similarity
from hatlens.progress import silent
from hatlens.store import RunFolder, json_text
from prompts.refusal import Refusal
from tests.hatlens.comparison.tiny_task import SETTINGS

ASKED: dict[str, Any] = {**SETTINGS, "queries": 4, "twins": ()}


def run(model: str, task: Path, out: Path, **changed: Any) -> dict[str, Any]:
    values = {**ASKED, "model": model, "task": str(task), **changed}
    return run_similarity(build_similarity(values), out)


def finished(out: Path) -> dict[str, int]:
    """When each cell was written."""
    return {str(file.relative_to(out)): file.stat().st_mtime_ns for file in out.rglob("*.npz")}


def stopped_at(cell: int, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes the run of this cell, counted from 1, raise."""
    begun = []

    def raising(*args: Any) -> Any:
        begun.append(args)
        if len(begun) == cell:
            raise error
        return run_cell(*args)

    monkeypatch.setattr(study, "run_cell", raising)


def test_a_stop_in_the_second_cell_keeps_the_first(
    gpt2: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a refusal, which takes away a folder without a cell."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        stopped_at(2, patched, Refusal("no, that one"))
        with pytest.raises(Refusal):
            run(gpt2, task, out)
    kept = finished(out)
    assert set(kept) == {"cells/trained/0.npz"}
    assert not list(out.rglob(".part-*"))
    chosen = RunFolder(out).manifest()["rate"]
    result = run(gpt2, task, out)
    after = finished(out)
    assert set(after) == {"cells/trained/0.npz", "cells/trained/1.npz"}
    assert {name: after[name] for name in kept} == kept
    assert RunFolder(out).manifest()["rate"] == chosen
    assert result["metrics"]


def test_a_run_that_was_stopped_says_what_one_that_was_not_says(
    gpt2: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the time that it took and where it lies; stopped between the model and its twin."""
    beside = {"twins": ("shuffled",), "kate_queries": 4}
    with monkeypatch.context() as patched:
        stopped_at(3, patched, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run(gpt2, task, tmp_path / "stopped", **beside)
    texts = []
    for name in ("stopped", "whole"):
        result = run(gpt2, task, tmp_path / name, **beside)
        texts.append(json_text({k: v for k, v in result.items() if k not in ("cost", "run")}))
    assert texts[0] == texts[1]


def test_a_stop_in_the_first_cell_can_be_taken_up(
    gpt2: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption leaves the folder as it is; a refusal before any cell leaves none."""
    with monkeypatch.context() as patched:
        stopped_at(1, patched, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run(gpt2, task, tmp_path / "run", sets=1)
    assert finished(tmp_path / "run") == {}
    assert run(gpt2, task, tmp_path / "run", sets=1)["metrics"]
    with monkeypatch.context() as patched:
        stopped_at(1, patched, Refusal("no, that one"))
        with pytest.raises(Refusal):
            run(gpt2, task, tmp_path / "refused", sets=1)
    assert not (tmp_path / "refused").exists()


def test_what_is_asked_for_later_runs_no_finished_cell(
    gpt2: str, task: Path, tmp_path: Path
) -> None:
    """Effects of single demonstrations, orders, a twin, another seed of it, one after the other."""
    out = tmp_path / "run"
    first = run(gpt2, task, out)
    before, asked = finished(out), {}
    assert (first["kate"], first["order_sensitivity"]) == (None, None)
    later: list[dict[str, Any]] = [
        {"kate_queries": 4, "orders": 2, "order_queries": 1},
        {"twins": ("shuffled",)},
        {"twin_seeds": (0, 1), "label_score": "mean"},
    ]
    added = []
    for one in later:
        asked.update(one)
        values = {**ASKED, "model": gpt2, "task": str(task), **asked}
        study.measure(build_similarity(values), RunFolder(out), silent)
        now = finished(out)
        assert {name: now[name] for name in before} == before, one
        added.append(len(now) - len(before))
        before = now
    # One of left-out effects and one a set of orders, then one a set of each twin.
    assert added == [3, 2, 2]
    result = run(gpt2, task, out, **asked)
    assert finished(out) == before
    assert result["kate"]["sentence"]
    assert result["order_sensitivity"]["orders"] == 2
    assert [one["seed"] for one in result["baselines"] if one["kind"] == "shuffled"] == [0, 1]
    for old, new in zip(first["metrics"], result["metrics"], strict=True):
        assert json_text(old["difference"]) == json_text(new["difference"])
    stored = json.loads((out / "manifest.json").read_text())["task"]
    assert (stored["kate_queries"], stored["orders"], stored["twin_seeds"]) == (4, 2, [0, 1])
