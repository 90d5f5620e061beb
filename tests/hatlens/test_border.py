"""What the command says when something is wrong, and its exit status."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from hatlens.cli.app import app as hatlens_app
from hatlens.cli.border import STOPPED, run_app
from hatlens.cli.setting_place import flag_of
from hatlens.comparison.config import SimilarityConfig
from hatlens.config import StudyConfig
from prompts.refusal import Refusal

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def work(kind: str = typer.Option("none"), as_json: bool = typer.Option(False, "--json")) -> None:
    if kind == "refusal":
        raise Refusal("needed a number, got 'x'", where="t.csv line 2")
    if kind == "disk":
        raise OSError(28, "No space left on device", "/out/a")
    if kind == "key":
        raise KeyError("ols")
    if kind == "bug":
        raise RuntimeError("broken")
    if kind == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    if kind == "exit":
        raise typer.Exit(1)


def test_work_that_ends_well_is_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, []) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("refusal", "hatlens: t.csv line 2: needed a number, got 'x'\n"),
        ("disk", "hatlens: No space left on device (/out/a)\n"),
        ("key", "hatlens: needed an entry named 'ols', found none\n"),
    ],
)
def test_refusals_are_one_line_and_exit_one(
    kind: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(app, ["--kind", kind]) == 1
    assert capsys.readouterr() == ("", line)


def test_a_refusal_with_json_is_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["--kind", "refusal", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)
    assert error == {"error": {"sentence": "needed a number, got 'x'", "where": "t.csv line 2"}}


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--examples", "1", "--config", "FILE"], "--examples"),
        (["--examples=1"], "--examples"),
        (["--config", "FILE"], "FILE: condition"),
        (["--config=FILE", "--noise", "0.1"], "FILE: condition"),
        (["--twins", "shuffle"], "--twins"),
        (["--head", "L0H0"], "--head"),
        (["--hypothesis", "olx"], "--hypothesis"),
        (["--preset", "mian"], "--preset"),
        (["--codec", "unsigned"], "--codec"),
        (["--layout", "lines"], "--layout"),
        (["--memory", "much"], "--memory"),
    ],
)
def test_a_refused_setting_is_placed_at_its_flag_or_in_its_file(
    words: list[str], where: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flag wins over the file, so that what a flag gives is never blamed on the file."""
    file = tmp_path / "study.yaml"
    file.write_text("condition: 0.5\n")
    given = [word.replace("FILE", str(file)) for word in words]
    if "--examples" in words:
        file.write_text("examples: 9\n")
    out = tmp_path / "out"
    assert run_app(hatlens_app, ["probe", str(model), *given, "--out", str(out), "--json"]) == 1
    said, log = capsys.readouterr()
    error = json.loads(said)["error"]
    assert error["where"] == where.replace("FILE", str(file))
    assert log == f"hatlens: {error['where']}: {error['sentence']}\n"


@pytest.mark.parametrize(
    ("command", "settings", "without"),
    [
        ("probe", StudyConfig, {"model", "name", "replicate"}),
        ("similarity", SimilarityConfig, {"model"}),
    ],
)
def test_the_place_of_a_setting_is_a_flag_that_the_command_knows(
    command: str, settings: type[BaseModel], without: set[str]
) -> None:
    group: Any = typer.main.get_command(hatlens_app)
    flags = {name for one in group.commands[command].params for name in one.opts}
    assert {one for one in settings.model_fields if flag_of(one) not in flags} == without


@pytest.mark.parametrize("words", [["--demos", "0"], ["--preset", "dai"], ["--twins", "shuffle"]])
def test_a_refused_setting_of_a_comparison_is_placed_too(
    words: list[str], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out"), "--json"]
    assert run_app(hatlens_app, ["similarity", str(model), *words, *out]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["where"] == words[0]


@pytest.mark.parametrize("words", [["--no-such-flag"], ["stray"], ["--kind"]])
def test_a_malformed_command_line_exits_two(words: list[str]) -> None:
    assert run_app(app, words) == 2


def test_debug_shows_the_error_itself() -> None:
    with pytest.raises(Refusal):
        run_app(app, ["--kind", "refusal", "--debug"])


def test_a_fault_of_ours_is_not_dressed_up() -> None:
    with pytest.raises(RuntimeError):
        run_app(app, ["--kind", "bug"])


def test_sigterm_stops_with_its_own_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["--kind", "term"]) == STOPPED
    assert "resumes" in capsys.readouterr().err


def test_a_command_that_says_its_status_keeps_it() -> None:
    assert run_app(app, ["--kind", "exit"]) == 1
