"""A whole comparison on tiny models: what it prints, its folder, and taking it up again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import run_similarity
from hatlens.store import RunFolder, json_text
from prompts.tasks.task import TASKS
from tests.analysis.page_reader import Page, without_plotly
from tests.hatlens.comparison.tiny_task import SETTINGS, flags

Run = tuple[Path, dict[str, Any]]


def run(model: str, task: Path, out: Path, **changed: Any) -> dict[str, Any]:
    values = {**SETTINGS, "model": model, "task": str(task), **changed}
    return run_similarity(build_similarity(values), out)


@pytest.fixture(scope="module")
def whole(gpt2: str, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("run") / "run"
    return out, run(gpt2, task, out)


@pytest.fixture(scope="module")
def rotary(llama: str, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("run") / "run"
    changed: dict[str, Any] = {
        "position": "both",
        "orders": 3,
        "order_queries": 2,
        "kate_queries": 5,
    }
    changed["twins"] = ()
    return out, run(llama, task, out, **changed)


def times(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("cells/**/*.npz")
    }


def test_the_json_is_strict_and_has_its_keys(
    whole: Run, gpt2: str, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["similarity", gpt2, "--task", str(task), "--out", str(whole[0]), "--json", *flags()]
    assert run_app(app, words) == 0

    def refuse(text: str) -> None:
        raise AssertionError(text)

    result = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert set(result) >= {
        *("model", "task", "accuracy", "metrics", "baselines", "rec2ftp", "selfcheck", "run"),
        *("verdict", "warnings", "fine_tuning", "learning_rate", "prompts"),
    }
    assert set(result["accuracy"]) == {"zsl", "icl", "ft"}
    keys = {"name", "variant", "position", "matched", "mismatched", "difference", "by_layer"}
    assert all(set(one) >= keys for one in result["metrics"])
    for one in result["baselines"]:
        assert set(one) >= {"kind", "seed", "metrics"}
        assert all(set(metric) >= keys for metric in one["metrics"])
    assert {one["kind"] for one in result["baselines"]} == {"shuffled", *CONDITIONS} - {MATCHED}
    assert set(result["rec2ftp"]) >= {"numerator", "denominator", "value", "chance"}
    assert result["selfcheck"]["implicit_update_residual"] < 1e-5


def test_every_measure_is_there(whole: Run) -> None:
    found = [(one["name"], one["variant"]) for one in whole[1]["metrics"]]
    assert found == [(one.name, one.variant) for one in DESCRIBED.values()]
    assert all(len(one["by_layer"]) in (1, 2) for one in whole[1]["metrics"])


def test_mismatched_runs_and_twins_have_the_norm_of_the_model(whole: Run) -> None:
    fits = whole[1]["fine_tuning"]
    for place in range(2):
        of_set = [one for one in fits if one["set"] == place]
        wanted = next(o for o in of_set if (o["model"], o["run"]) == ("trained", "ft"))
        assert wanted["rate"] == 0.3
        assert {(o["model"], o["run"]) for o in of_set} == {
            (model, name)
            for model in ("trained", "shuffled")
            for name in ("ft", "ft-other", "ft-task")
        }
        for one in of_set:
            assert one["relative_norm"] == pytest.approx(wanted["relative_norm"], rel=0.25)


def test_a_finished_run_is_taken_up_without_a_forward(
    whole: Run, gpt2: str, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = times(whole[0])
    assert len(before) == 4
    monkeypatch.setattr("hatlens.comparison.study.load_model", None)
    again = run(gpt2, task, whole[0])
    assert times(whole[0]) == before
    assert json_text(again["metrics"]) == json_text(whole[1]["metrics"])


def test_only_what_is_missing_is_run_again(whole: Run, gpt2: str, task: Path) -> None:
    gone = "cells/trained/1.npz"
    stored = RunFolder(whole[0]).read_arrays(gone[:-4])
    before = times(whole[0])
    (whole[0] / gone).unlink()
    run(gpt2, task, whole[0])
    after = times(whole[0])
    assert {name for name in after if after[name] != before[name]} == {gone}
    again = RunFolder(whole[0]).read_arrays(gone[:-4])
    for name in stored:
        if not name.startswith("seconds") and not name.endswith("/seconds"):
            np.testing.assert_array_equal(again[name], stored[name], err_msg=name)


def test_another_comparison_does_not_go_into_the_folder(whole: Run, gpt2: str, task: Path) -> None:
    with pytest.raises(ValueError, match="another study"):
        run(gpt2, task, whole[0], demos=2)


def test_it_is_concluded_again_without_the_model(
    whole: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hatlens.comparison.study.load_model", None)
    (whole[0] / "results.json").unlink()
    (whole[0] / "report.html").unlink()
    assert run_app(app, ["analyse", str(whole[0]), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert json_text(again["metrics"]) == json_text(whole[1]["metrics"])
    assert run_app(app, ["report", str(whole[0])]) == 0
    assert (whole[0] / "report.html").is_file()


def test_python_gives_what_the_command_gives(whole: Run, gpt2: str, task: Path) -> None:
    import hatlens as hl

    made = hl.similarity(gpt2, task=task, out=whole[0], **SETTINGS)
    read = hl.read_comparison(whole[0])
    assert json_text(made.result["metrics"]) == json_text(whole[1]["metrics"])
    assert json_text(read.result["metrics"]) == json_text(whole[1]["metrics"])
    assert made.sentence == whole[1]["verdict"]["sentence"]
    assert made.label == whole[1]["verdict"]["label"]
    assert set(made.tables) == set(read.tables) == set(RunFolder(whole[0]).read_tables())


def test_another_folder_is_no_comparison(tmp_path: Path) -> None:
    import hatlens as hl

    with pytest.raises(ValueError, match="folder of a comparison"):
        hl.read_comparison(tmp_path)


def test_the_tables_are_tidy(whole: Run) -> None:
    tables = RunFolder(whole[0]).read_tables()
    assert set(tables) == {"measures", "layers", "answers", "fine_tuning", "norms", "heads"}
    answers = tables["answers"]
    assert len(answers[answers["run"] == "icl"]) == 2 * 2 * 10
    steps = tables["fine_tuning"]
    assert set(steps["step"]) == {0, 1, 2}


def test_the_page_stands_alone(whole: Run) -> None:
    source = (whole[0] / "report.html").read_text(encoding="utf-8")
    page = Page(without_plotly(source))
    assert whole[1]["verdict"]["sentence"] in source
    assert page.seen
    assert "src=" not in without_plotly(source)


def test_under_rotation_the_position_changes_nothing(rotary: Run) -> None:
    found = {
        (line["name"], line["variant"], line["position"]): line["matched"]
        for line in rotary[1]["metrics"]
    }
    assert {position for _, _, position in found} == {"answer", "label0"}
    matched = next(o for o in rotary[1]["baselines"] if o["kind"] == "position-matched")
    for one in matched["metrics"]:
        assert one["mismatched"] == found[one["name"], one["variant"], one["position"]]


def test_order_sensitivity_is_there_where_asked(rotary: Run, whole: Run) -> None:
    found = rotary[1]["order_sensitivity"]
    assert (found["orders"], found["queries"]) == (3, 2)
    assert found["icl"].estimate > 0
    assert whole[1]["order_sensitivity"] is None


@pytest.mark.parametrize("name", TASKS)
def test_every_published_task_runs_from_a_file_of_its_shape(
    name: str, llama: str, tmp_path: Path
) -> None:
    task = TASKS[name]
    labels = list(task.words)
    rows = [
        {
            **{field: f"{field} {i} is no {i % 7}" for field in task.fields},
            "label": labels[i % len(labels)],
        }
        for i in range(12)
    ]
    file = tmp_path / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"demos": 1, "queries": 2, "sets": 1, "twins": (), "lr": 0.1, "data": str(file)}
    result = run_similarity(
        build_similarity({"model": llama, "task": name, **asked}), tmp_path / "run"
    )
    assert result["task"]["task"] == name
    assert 0 <= result["accuracy"]["icl"].estimate <= 1
    assert result["prompts"]["used"] == [1]


def test_effects_of_demonstrations_left_out_are_there_where_asked(rotary: Run, whole: Run) -> None:
    table = RunFolder(rotary[0]).read_tables()["left_out"]
    assert len(table) == 5 * 3
    assert table["effect"].abs().max() > 0
    assert table["similarity"].between(0, 1 + 1e-9).all()
    assert rotary[1]["kate"]["sentence"]
    assert whole[1]["kate"] is None


def test_lines_of_a_regression_prompt_are_a_task(gpt2: str, tmp_path: Path) -> None:
    changed = {"twins": (), "sets": 1, "queries": 9}
    result = run(gpt2, Path("regression"), tmp_path / "run", **changed)
    assert result["accuracy"] == {"zsl": None, "icl": None, "ft": None}
    assert "number" in result["accuracy_reason"]
    assert result["log_probability"]["icl"].estimate < 0
    assert "->" in result["prompts"]["prompt"]
    assert len(result["metrics"]) == len(DESCRIBED)
