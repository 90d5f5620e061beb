"""`hatlens models`: one line a model, one sentence a refusal, JSON alone on standard output."""

import json
from pathlib import Path

import pytest

from hatlens.cli.border import run_app
from hatlens.cli.models import app
from tests.probes.model_files import write_folder

pytestmark = pytest.mark.usefixtures("own_caches")


def test_list_says_which_command_gets_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["list"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("smollm2-135m      not here  SmolLM2-135M-Instruct")
    assert "\ntext-regressor        1 MB  a small character-level GPT-2" in out
    assert "`hatlens models pull smollm2-135m` gets it." in out
    assert run_app(app, ["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [(model["name"], model["here"]) for model in listed] == [
        ("smollm2-135m", False),
        ("text-regressor", True),
    ]
    assert listed[0]["bytes"] == 0


def test_check_reports_what_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "tiny")
    assert run_app(app, ["check", str(tmp_path / "tiny")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("tiny: sound")
    assert out[1].startswith("weights: ")
    assert out[2].startswith("plain English: ")
    assert run_app(app, ["check", str(tmp_path / "tiny"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == (tmp_path / "tiny" / "model.safetensors").stat().st_size
    assert found["anchors"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "smollm2-135m"], "`hatlens models pull smollm2-135m` gets it"),
        (["check", "smollm2"], "unknown model 'smollm2'; near names: smollm2-135m"),
        (["pull", "smollm2-135m", "--revision", "0123456"], "came the revision '0123456'"),
        (["pull", "./nowhere"], "no file or folder './nowhere'"),
    ],
)
def test_a_refusal_is_one_line_and_exit_1(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(app, words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert run_app(app, [*words, "--json"]) == 1
    assert said in json.loads(capsys.readouterr().out)["error"]["sentence"]


def test_a_malformed_command_line_is_exit_2() -> None:
    assert run_app(app, ["pull"]) == 2
    assert run_app(app, ["check", "a", "--nosuchflag"]) == 2


@pytest.mark.model
def test_pull_of_what_is_here_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HATLENS_CACHE")
    assert run_app(app, ["pull", "smollm2-135m", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "smollm2-135m is already here and whole\n"
    assert json.loads(printed.out)["name"] == "smollm2-135m"
