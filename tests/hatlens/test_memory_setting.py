"""The setting `memory` reaches every context, and the manifest and the doctor say what it means."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.config import build_config
from hatlens.doctor import diagnose
from hatlens.measure import measure
from hatlens.progress import silent
from hatlens.store import RunFolder
from probes.memory import parse_bytes, plan
from prompts.refusal import Refusal
from tests.hatlens.tiny_study import SETTINGS, write_gpt2

SMALL: dict[str, Any] = {**SETTINGS, "examples": 30, "contexts": 2, "pairs": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gpt2(tmp_path_factory.mktemp("model") / "tiny", positions=1024)


def run(folder: Path, out: Path, **changed: Any) -> RunFolder:
    run_folder = RunFolder(out)
    measure(build_config({**SMALL, "model": str(folder), **changed}), run_folder, silent)
    return run_folder


def test_every_context_and_pair_is_run_within_the_budget(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are those of a study without the setting; every plan is made with it."""
    asked: list[Any] = []

    def noted(model: Any, prompts: Any, *, budget: int | None) -> Any:
        asked.append(budget)
        return right(model, prompts, budget=budget)

    free = run(folder, tmp_path / "free")
    facts = free.manifest()["memory"]
    assert facts["set"] is None
    assert facts["budget_bytes"] > facts["bytes"] > 0
    assert (facts["sharing"], facts["block"]) == ("packed", 3)
    right = plan
    monkeypatch.setattr("probes.rows.plan", noted)
    # One byte less than what all three queries take together.
    tight = run(folder, tmp_path / "tight", memory=f"{(facts['bytes'] - 1) / 1000:.3f}KB")
    told = tight.manifest()["memory"]
    assert set(asked) == {told["budget_bytes"]}
    assert told["budget_bytes"] == facts["bytes"] - 1
    assert told["bytes"] <= told["budget_bytes"]
    assert told["sharing"] == "cached"
    for file in (tmp_path / "free" / "rows").rglob("*.npz"):
        ours = np.load(tmp_path / "tight" / file.relative_to(tmp_path / "free"))
        theirs = np.load(file)
        for name in theirs.files:
            if name.startswith(("score", "weight", "prefix")):
                np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, rtol=1e-5)


def test_a_budget_too_small_for_one_query(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"needed at least \d+MB of memory over the loaded model"):
        run(folder, tmp_path / "none", memory="1MB")


def test_what_is_no_amount_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["probe", "nowhere/none", "--memory", "much", "--out", str(tmp_path / "run")]
    assert run_app(app, words) == 1
    assert "such as 4GB, 800MB or 2GiB, came 'much'" in capsys.readouterr().err


def test_the_doctor_plans_with_the_same_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--contexts", "2", "--examples", "7", "--queries", "3", "--json")
    assert run_app(app, ["doctor", str(folder), *few, "--memory", "1MB"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    (said,) = [problem for problem in problems if "needed at least" in problem]
    least = said.split("at least ")[1].split(" of")[0]
    config = build_config({"examples": 7, "queries": 3, "contexts": 2, "pairs": 0}).model_copy(
        update={"model": str(folder), "memory": least}
    )
    assert parse_bytes(least) > 0
    found = diagnose(config)
    assert found.safe_for_verdicts
    assert found.estimate is not None
    assert found.estimate.memory_bytes > parse_bytes(least)
