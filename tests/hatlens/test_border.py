"""What the command says when something is wrong, and its exit status."""

import json
import os
import signal

import pytest
import typer

from hatlens.cli.border import STOPPED, run_app
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
