"""`hatlens reference train` writes a model and its curve; a built-in model brings its settings."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import probes.reference.train_text_regressor as training
from hatlens.cli.app import app
from hatlens.cli.border import STOPPED, run_app
from hatlens.config import build_config
from hatlens.model_settings import brought_sentence, brought_settings
from probes.models import load_model
from prompts.refusal import Refusal

TRAIN = ["reference", "train", "text-regressor"]


@pytest.fixture(autouse=True)
def fewer_scored_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.score_regressor
    monkeypatch.setattr(training, "score_regressor", lambda model: whole(model, prompts=20))


def test_train_writes_a_model_and_a_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made"
    assert run_app(app, [*TRAIN, "--steps", "3", "--seed", "4", "--out", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("after 3 steps (0.")
    assert " min): mean absolute error 0." in printed.out
    assert f"hatlens probe {folder} --features '1' --examples '8'" in printed.out
    assert "train: 3/3" in printed.err
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        (point,) = csv.DictReader(file)
    assert (point["step"], float(point["loss"]) > 3) == ("3", True)
    made_by = json.loads((folder / "training.json").read_text("utf-8"))
    assert (made_by["training"]["steps"], made_by["training"]["seed"]) == (3, 4)
    assert set(made_by["versions"]) >= {"hatlens", "torch", "transformers"}
    assert load_model(str(folder)).layers == 4
    assert run_app(app, [*TRAIN, "--steps", "3", "--out", str(folder)]) == 1
    assert "needed a new folder, this one holds 'config.json'" in capsys.readouterr().err


def test_minutes_become_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 s at 15 s a step are 4 steps."""
    clock = iter([0.0, 15.0])
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(training, "train_regressor", lambda *given, **named: None)
    assert training.steps_in(1, trial=1) == 4
    monkeypatch.undo()
    monkeypatch.setattr(training, "steps_in", lambda minutes, seed: int(4 * minutes))
    words = [*TRAIN, "--minutes", "0.5", "--out", str(tmp_path / "made"), "--json"]
    assert run_app(app, words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["training"]["steps"] == 2
    assert printed["folder"] == str(tmp_path / "made")
    assert [point["step"] for point in printed["curve"]] == [2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reference", "train", "text-regresor"], "near names: text-regressor"),
        ([*TRAIN, "--steps", "3", "--minutes", "2"], "--steps or --minutes, came both: 3 and 2"),
    ],
)
def test_a_refusal_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(app, [*words, "--out", str(tmp_path / "made")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_stopped_run_leaves_only_its_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "train_regressor", stopped)
        assert run_app(app, [*TRAIN, "--steps", "3", "--out", str(tmp_path)]) == STOPPED
    assert capsys.readouterr().err.endswith("hatlens: stopped\n")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.csv"]
    assert run_app(app, [*TRAIN, "--steps", "1", "--out", str(tmp_path)]) == 0


def test_the_built_in_model_brings_the_settings_of_its_prompts() -> None:
    config = build_config({"model": "text-regressor"})
    assert (config.features, config.examples) == (1, 8)
    assert (config.layout, config.codec) == ("{x1};{y}", "unsigned-integer(2,0)")


def test_given_settings_win() -> None:
    config = build_config({"model": "text-regressor", "examples": 7, "codec": "decimal"})
    assert (config.features, config.examples, config.codec) == (1, 7, "decimal")
    assert build_config({"model": "smollm2-135m"}) == build_config({})
    assert brought_settings(config.model_dump()) == {}


def test_what_it_brings_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = brought_sentence({"model": "text-regressor", "examples": 7, "layout": "line"})
    assert said.endswith("so they are used: features 1, codec unsigned-integer(2,0)")
    assert brought_sentence({"model": "smollm2-135m"}) == ""
    assert run_app(app, ["prompts", "show", "text-regressor", "--contexts", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("text-regressor was trained on these prompts") == 1
    assert "text-regressor was" not in printed.out


def test_more_features_than_it_knows_are_refused_by_its_layout() -> None:
    from hatlens.sets import draw_sets
    from prompts.layouts import layout_named

    config = build_config({"model": "text-regressor", "features": 2, "pairs": 0})
    assert draw_sets(config)
    with pytest.raises(Refusal, match=r"needs \{x1\} to \{x2\} for 2 features; came \{x1\}"):
        layout_named(config.layout).fields(["a", "b"], "y")
