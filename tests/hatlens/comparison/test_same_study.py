"""A comparison on the examples of a study: its settings are taken from there, and held to it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.comparison.config import build_similarity
from hatlens.comparison.library import similarity
from hatlens.comparison.same_study import study_facts, with_study
from hatlens.comparison.study import analyse_comparison, run_similarity
from hatlens.config import build_config
from hatlens.sets import draw_sets
from hatlens.store import RunFolder
from hatlens.study import run_studies, stored_config
from prompts.refusal import Refusal

STUDY: dict[str, Any] = {
    "examples": 4,
    "contexts": 3,
    "queries": 9,
    "flips": 100,
    "pairs": 0,
    "twins": (),
    "seed": 3,
    "codec": "unsigned-integer",
    "reading": "greedy",
}
ASKED = {"task": "regression", "twins": (), "lr": 0.1, "sets": 1}


@pytest.fixture(scope="module")
def study(gpt2: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "study"
    run_studies([build_config({**STUDY, "model": gpt2})], folder)
    return folder


@pytest.fixture(scope="module")
def run(study: Path) -> tuple[Path, dict[str, Any]]:
    out = study.parent / "comparison"
    config = build_similarity(with_study({**ASKED, "study": str(study)}))
    return out, run_similarity(config, out)


def test_settings_are_taken_from_the_study(study: Path) -> None:
    found = with_study({**ASKED, "study": str(study)})
    theirs = stored_config(RunFolder(study))
    config = build_similarity(found)
    assert (config.demos, config.queries, config.codec) == (4, 9, "unsigned-integer")
    assert (config.model, config.seed) == (theirs.model, 3)
    assert with_study({"study": str(study)})["sets"] == 3  # as many as it has contexts, 5 at most


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"features": 3}, "setting 'features': 3 was given, and the study has 2"),
        ({"demos": "5"}, "setting 'demos': 5 was given, and the study has 4"),
        ({"noise": "0.5"}, "setting 'noise': 0.5 was given, and the study has 0.1"),
        ({"model": "other"}, "setting 'model': 'other' was given"),
        ({"task": "mr"}, "setting 'task': 'mr' was given, and the study has 'regression'"),
        ({"template": "chat"}, "setting 'template': 'chat'"),
        ({"sets": 4}, "sets of at most 3, came 4"),
    ],
)
def test_what_differs_is_refused_by_both_names(
    given: dict[str, Any], said: str, study: Path
) -> None:
    with pytest.raises(Refusal, match=said):
        with_study({"study": str(study), **given})


def changed(study: Path, to: Path, change: dict[str, Any]) -> Path:
    """A copy of the study whose settings say something else."""
    shutil.copytree(study, to)
    manifest = json.loads((to / "manifest.json").read_text())
    manifest["task"].update(change)
    (to / "manifest.json").write_text(json.dumps(manifest))
    return to


def test_settings_that_a_comparison_does_not_have_are_refused(study: Path, tmp_path: Path) -> None:
    pushed = changed(study, tmp_path / "pushed", {"query_push": 0.5})
    with pytest.raises(Refusal, match=r"query_push 0.0 only; the study has query_push 0.5"):
        with_study({"study": str(pushed)})


def test_other_examples_are_refused_with_their_place(study: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(study, other)
    cell = RunFolder(other).read_arrays("contexts/main")
    before = str(cell["x_text"][1, 2, 0])
    cell["x_text"][1, 2, 0] = "987"
    RunFolder(other).write_arrays("contexts/main", cell)
    asked = with_study({**ASKED, "sets": 2, "study": str(other)})
    with pytest.raises(Refusal, match=f"x of example 3 of context 2 is '{before}' here and '987'"):
        study_facts(build_similarity(asked), tmp_path / "out")
    # The first context is untouched: one set is one context.
    assert study_facts(build_similarity({**asked, "sets": 1}), tmp_path / "out")
    cell = RunFolder(study).read_arrays("contexts/main")
    cell["y"][0, 0] += 0.5
    RunFolder(other).write_arrays("contexts/main", cell)
    with pytest.raises(Refusal, match="y of example 1 of context 1"):
        study_facts(build_similarity({**asked, "sets": 1}), tmp_path / "out")


def test_the_demonstrations_are_the_study_s_examples(
    study: Path, run: tuple[Path, dict[str, Any]]
) -> None:
    main = draw_sets(stored_config(RunFolder(study))).sets["main"]
    shown = RunFolder(study).manifest()["prompts"][0]
    prompt = run[1]["prompts"]["prompt"]
    lines = shown.splitlines()[:4]
    assert prompt.splitlines()[:4] == lines
    assert main.codec.text(main.contexts[0].y[0]) in lines[0]


def test_what_the_study_found_is_on_the_page(study: Path, run: tuple[Path, dict[str, Any]]) -> None:
    out, result = run
    found, stored = result["study"], json.loads((study / "results.json").read_text())
    assert found["sentence"] == stored["verdict"]["headline"]
    assert found["label"] == stored["verdict"]["label"]
    assert found["link"] == "../study/report.html"
    assert (out / found["link"]).resolve().is_file()
    page = (out / "report.html").read_text()
    assert "The same examples as attention rows (OLS row)" in page
    assert 'href="../study/report.html"' in page
    assert not any("other weights" in line for line in result["warnings"])


def test_it_is_concluded_again_without_the_study(
    run: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run[0], copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["task"]["study"] = str(tmp_path / "gone")
    manifest["study"]["file_hash"] = "another"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    again = analyse_comparison(copy)
    assert again["study"]["label"] == run[1]["study"]["label"]
    assert any("other weights" in line for line in again["warnings"])


def test_a_study_may_be_added_to_a_finished_comparison(study: Path, tmp_path: Path) -> None:
    asked = build_similarity(with_study({**ASKED, "study": str(study)}))
    first = run_similarity(asked.model_copy(update={"study": None}), tmp_path / "run")
    assert first["study"] is None
    assert "attention rows (OLS row)" not in (tmp_path / "run" / "report.html").read_text()
    cells = {file: file.stat().st_mtime_ns for file in (tmp_path / "run" / "cells").rglob("*.npz")}
    second = run_similarity(asked, tmp_path / "run")
    assert second["study"]["run"] == str(study)
    assert cells == {file: file.stat().st_mtime_ns for file in cells}


def test_the_command_takes_it_all_from_the_study(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["similarity", "--study", str(study), "--twins", "none", "--lr", "0.1", "--sets", "1"]
    assert run_app(app, [*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["task"]["task"] == "regression"
    assert result["study"]["contexts"] == 3
    assert run_app(app, [*words, "--demos", "7", "--json"]) == 1
    assert "'demos': 7 was given" in json.loads(capsys.readouterr().out)["error"]["sentence"]


def test_no_study_and_a_preset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="needed a run folder"):
        with_study({"study": str(tmp_path)})
    task = {"task": {"preset": "quick", "studies": ["a", "b"]}}
    (tmp_path / "manifest.json").write_text(json.dumps(task))
    with pytest.raises(Refusal, match="came the run of a preset"):
        with_study({"study": str(tmp_path)})


def test_absolute_errors_are_there(run: tuple[Path, dict[str, Any]]) -> None:
    found = run[1]["absolute_error"]
    assert found["queries"] == 9
    table = RunFolder(run[0]).read_tables()["numbers"]
    hand = np.abs(table["least_squares"] - table["target"]).mean()
    assert found["least_squares"].estimate == pytest.approx(hand)
    for name in ("zsl", "icl", "ft"):
        assert found["runs"][name]["unread"] == int(table[name].isna().sum())


def test_python_takes_it_from_the_study_too(study: Path, tmp_path: Path) -> None:
    found = similarity(study=str(study), twins=(), lr=0.1, sets=1, out=tmp_path / "run")
    assert found.result["task"]["demos"] == 4
    assert found.result["study"]["run"] == str(study)
    with pytest.raises(Refusal, match="setting 'model'"):
        similarity("other", study=str(study), out=tmp_path / "other")


def test_numbers_are_those_that_the_study_holds(
    study: Path, run: tuple[Path, dict[str, Any]]
) -> None:
    theirs = RunFolder(study).read_tables()["answers"].query("context == 0")
    ours = RunFolder(run[0]).read_tables()["numbers"]
    for name, column in (("target", "truth"), ("least_squares", "ols"), ("mean", "mean")):
        np.testing.assert_allclose(ours[name], theirs[column], atol=1e-9)
