"""What cannot be used is refused in one sentence, with nothing left behind; the rest is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from hatlens.cli.app import app
from hatlens.cli.border import run_app
from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import default_folder, run_similarity
from prompts.refusal import Refusal
from tests.hatlens.comparison.tiny_task import SETTINGS, flags


def lines(file: Path, rows: list[dict[str, str]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def goods(file: Path, counts: list[int]) -> str:
    """Texts of so many times one word, all of one label."""
    return lines(file, [{"text": "good " * n, "label": "Positive"} for n in counts])


def refused(words: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert run_app(app, ["similarity", *words, "--out", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["error"]
    assert not out.exists()
    return found["sentence"], found["where"]


def result_of(model: str, out: Path, **changed: Any) -> dict[str, Any]:
    return run_similarity(build_similarity({**SETTINGS, "model": model, **changed}), out)


def test_four_rows_with_one_text_twice_run_and_say_so(gpt2: str, tmp_path: Path) -> None:
    rows = [("q0", "a"), ("q1", "b"), ("q2", "a"), ("q0", "b")]
    file = lines(tmp_path / "c25.jsonl", [{"text": t, "label": y} for t, y in rows])
    asked = {"task": file, "demos": 2, "queries": 4, "sets": 1, "twins": ()}
    result = result_of(gpt2, tmp_path / "run", **asked)
    said = " ".join(result["warnings"])
    assert "line 1 and line 4 with two labels (a, b)" in said
    assert "mismatch control" in said
    assert result["verdict"]["label"] == "not assessable"
    assert "1 query is too few" in result["verdict"]["sentence"]
    prompt = result["prompts"]["prompt"]
    assert len({prompt.count(f"q{i}") for i in range(3)}) == 1  # the query is no example


def test_a_text_longer_than_the_window_is_named(
    gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = goods(tmp_path / "c27a.jsonl", [5, 300, 5])
    sentence, where = refused([gpt2, "--task", file, "--demos", "1"], tmp_path / "out", capsys)
    assert where == "c27a.jsonl, line 2"
    assert "1,5" in sentence  # five bytes a word
    assert "512" in sentence


def test_demonstrations_that_do_not_fit_are_left_out_everywhere(gpt2: str, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "c27b.jsonl",
        [{"text": f"good {i} " * 6, "label": "Positive"} for i in range(40)],
    )
    asked = {"task": file, "demos": 12, "queries": 2, "sets": 1, "twins": ()}
    result = result_of(gpt2, tmp_path / "run", **asked)
    used = result["prompts"]["used"][0]
    assert 0 < used < 12
    assert result["prompts"]["dropped"] == [12 - used]
    fits = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert fits["prompts"]["used"] == [used]
    assert any(f"room for {used} of 12" in line for line in result["warnings"])


def test_a_rate_of_zero_moves_nothing_and_says_so(gpt2: str, task: Path, tmp_path: Path) -> None:
    result = result_of(gpt2, tmp_path / "run", task=str(task), lr=0)
    found = {(one["name"], one["variant"]): one for one in result["metrics"]}
    aou = found["SimAOU", "orthogonal"]
    assert aou["undefined"]["count"] == aou["undefined"]["of"] == 2 * 10 * 2
    assert aou["matched"].estimate != aou["matched"].estimate  # NaN: null in the file
    assert found["update norm", "FT"]["matched"].estimate == 0
    assert result["verdict"]["label"] == "not assessable"
    assert result["rec2ftp"]["denominator"] == 0
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    assert stored["rec2ftp"]["value"]["estimate"] is None


def test_a_rate_that_diverges_fails_its_run_alone(gpt2: str, task: Path, tmp_path: Path) -> None:
    asked = {"task": str(task), "ft": "whole", "lr": 1e6, "twins": ()}
    result = result_of(gpt2, tmp_path / "run", **asked)
    assert [one["set"] for one in result["failures"]] == [0, 1]
    assert "diverged" in result["failures"][0]["sentence"]
    assert result["verdict"]["label"] == "not assessable"
    assert (tmp_path / "run" / "report.html").is_file()


def test_labels_stay_text(gpt2: str, task: Path, tmp_path: Path) -> None:
    result = result_of(gpt2, tmp_path / "run", task=str(task), sets=1, twins=())
    assert result["task"]["label_words"] == {"No": "No", "Yes": "Yes"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr: 1e-3\ntwin_seeds: [010, 1_000]\n", "'010'"),
        ("lr: 1e-3\nlr: 1e-2\n", "stands twice"),
        ("rate: 1e-3\n", "unknown setting 'rate'"),
        ("lr: fast\n", "'lr'"),
        ("ft: value-layer\n", "needs the layer"),
    ],
)
def test_settings_files(
    text: str, said: str, gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c17.yaml"
    file.write_text(text)
    sentence, where = refused([gpt2, "--config", str(file)], tmp_path / "out", capsys)
    assert said in sentence
    assert str(file) in where


def test_a_number_in_a_settings_file_is_a_number(tmp_path: Path) -> None:
    from prompts.yaml_file import read_yaml

    file = tmp_path / "ok.yaml"
    file.write_text("lr: 1e-3\nrevision: 0123456\n")
    config = build_similarity(read_yaml(file))
    assert (config.lr, config.revision) == (0.001, "0123456")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "nosuch"], "unknown task"),
        (["--twins", "nosuch"], "unknown twin"),
        (["--twins", "2"], "unknown twin '2'; near names: "),
        (["--twins", "2"], "by their seeds (--twin-seed 0 --twin-seed 1)"),
        (["--preset", "nosuch"], "unknown preset"),
        (["--ft", "nosuch"], "'ft'"),
        (["--demos", "0"], "'demos'"),
        (["--task", "regression", "--data", "x.csv"], "draws its own lines"),
    ],
)
def test_names(
    words: list[str], said: str, gpt2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence, _ = refused([gpt2, *words], tmp_path / "out", capsys)
    assert said in sentence


def test_a_folder_of_another_command_is_left_alone(gpt2: str, task: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"task": {"features": 2}}')
    with pytest.raises(Refusal, match="another command"):
        result_of(gpt2, tmp_path, task=str(task))
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_presets_set_the_published_switches() -> None:
    dai, deutch = (build_similarity({"preset": name}) for name in ("dai2023", "deutch2024"))
    for one in (dai, deutch):
        assert (one.position, one.label_score, one.lr_split) == ("label0", "mean", "evaluation")
        assert (one.loss_tokens, one.equal_norm) == ("all", False)
    assert (dai.ft, deutch.ft, deutch.step_norm) == ("gd", "lcgd", "shared")
    assert build_similarity({"preset": "dai2023", "position": "answer"}).position == "answer"


@pytest.mark.parametrize("preset", ["dai2023", "deutch2024"])
def test_presets_run(preset: str, gpt2: str, task: Path, tmp_path: Path) -> None:
    words = ["similarity", gpt2, "--task", str(task), "--preset", preset]
    words += [*flags(sets=1, queries=2, twins=("none",), lr=0.1), "--out", str(tmp_path / "run")]
    assert run_app(app, words) == 0


def test_default_folders_are_safe() -> None:
    config = build_similarity({"model": "C:\\models\\Smol:Q4.gguf", "task": "a/b.yaml"})
    assert default_folder(config).parent == Path("runs")
