"""Progress with time left: bars in a terminal, else a plain line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Report = Callable[[str, int, int], None]
"""``report(stage, done, total)``: called by the work; `done` counts from 0 to `total`."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def seconds_left(elapsed: float, done: int, total: int) -> str:
    """Time left at the pace so far, as m:ss; '?' before the first step is done."""
    if done == 0:
        return "?"
    left = round(elapsed / done * (total - done))
    return f"{left // 60}:{left % 60:02d}"


class PlainLines:
    """One line at a stage's start and end and at intervals that grow with the elapsed time."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.begun = self.said = clock()
        self.stage, self.stage_begun, self.stage_from = "", self.begun, 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self.clock()
        if stage != self.stage:
            self.stage, self.stage_begun, self.stage_from = stage, now, done
        interval = max(15.0, (now - self.begun) / 10)
        if done < total and now - self.said < interval:
            return
        self.said = now
        left = seconds_left(now - self.stage_begun, done - self.stage_from, total - self.stage_from)
        self.stream.write(f"{stage}: {done}/{total}, {left} left\n")
        self.stream.flush()


class NotebookLine:
    """One line that is rewritten in place in a notebook's output cell."""

    def __init__(self) -> None:
        from IPython.display import Pretty, display  # type: ignore[import-not-found]

        self.wrap = Pretty
        self.handle = display(Pretty(""), display_id=True)
        self.begun, self.stage = time.monotonic(), ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self.stage:
            self.begun, self.stage = time.monotonic(), stage
        bar = "#" * (20 * done // max(total, 1))
        left = seconds_left(time.monotonic() - self.begun, done, total)
        self.handle.update(self.wrap(f"{stage} [{bar:<20}] {done}/{total}, {left} left"))


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Report]:
    """A reporter that fits where it runs: terminal, notebook or file."""
    stream = stream or sys.stderr
    if "ipykernel" in sys.modules:
        yield NotebookLine()
    elif stream.isatty():
        with terminal_bars(stream) as report:
            yield report
    else:
        yield PlainLines(stream)


@contextmanager
def terminal_bars(stream: TextIO) -> Iterator[Report]:
    """One bar a stage, with time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=Console(file=stream)) as bars:
        tasks: dict[str, object] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)  # type: ignore[arg-type]

        yield report
