"""Where errors become one line: refusals exit 1, a malformed command line exits 2."""

import json
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

import typer

from hatlens.cli.setting_place import place_of

STOPPED = 130
"""Exit status after Ctrl-C or SIGTERM; the same command again resumes."""


def run_app(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; a traceback only with ``--debug``."""
    words = [word for word in arguments if word != "--debug"]
    debug, as_json = len(words) < len(arguments), "--json" in words
    return guarded(lambda: call(app, words), words, debug=debug, as_json=as_json)


def call(app: typer.Typer, words: Sequence[str]) -> int:
    """The command's exit status; typer turns an interrupt into a status, undone here."""
    status = app(args=list(words), prog_name="hatlens", standalone_mode=False)
    if status == STOPPED:
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def guarded(work: Callable[[], int], words: Sequence[str], *, debug: bool, as_json: bool) -> int:
    """Do the work; say what stopped it in one sentence."""
    before = signal.signal(signal.SIGTERM, stop)
    try:
        return work()
    except KeyboardInterrupt:
        return say("stopped; the same command again resumes where it stopped", STOPPED)
    except typer.Abort:
        return say("stopped", STOPPED)
    except typer.Exit as leave:
        return leave.exit_code
    except Exception as error:
        if hasattr(error, "format_message"):
            return say(error.format_message(), 2)
        if debug or not isinstance(error, (ValueError, OSError, LookupError)):
            raise
        return refuse(error, words, as_json=as_json)
    finally:
        signal.signal(signal.SIGTERM, before)


def stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM stops as Ctrl-C does; a second one while stopping is not needed and ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def refuse(error: Exception, words: Sequence[str], *, as_json: bool) -> int:
    """Say the error with its place: its own, or that of the setting it is about."""
    setting = str(getattr(error, "setting", ""))
    where = str(getattr(error, "where", "")) or (place_of(setting, words) if setting else "")
    sentence = str(getattr(error, "sentence", "")) or one_line(error)
    if as_json:
        print(json.dumps({"error": {"sentence": sentence, "where": where}}, ensure_ascii=False))
    return say(f"{where}: {sentence}" if where else sentence, 1)


def one_line(error: Exception) -> str:
    """The error's own words on one line; a bare key error says what was looked up."""
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{place}"
    if isinstance(error, KeyError):
        return f"needed an entry named {error.args[0]!r}, found none"
    return " ".join(str(error).split()) or type(error).__name__


def say(sentence: str, status: int) -> int:
    print(f"hatlens: {sentence}", file=sys.stderr)
    return status
