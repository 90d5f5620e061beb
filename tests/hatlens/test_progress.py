"""Progress in a file is a few plain lines with done, total and time left."""

import io
import re

from hatlens.progress import PlainLines, progress, seconds_left


class Clock:
    """Ten seconds a step."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


def test_a_long_stage_gives_few_plain_lines() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream, clock=Clock())
    for done in range(1001):
        lines("contexts", done, 1000)
    text = stream.getvalue()
    assert "\r" not in text
    assert "\x1b" not in text
    assert 5 < len(text.splitlines()) < 60
    for line in text.splitlines():
        assert re.fullmatch(r"contexts: \d+/1000, (\?|\d+:\d\d) left", line)
    assert text.endswith("contexts: 1000/1000, 0:00 left\n")


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    stream = io.StringIO()
    with progress(stream) as report:
        report("load", 0, 1)
        report("load", 1, 1)
    assert stream.getvalue() == "load: 1/1, 0:00 left\n"


def test_time_left_is_elapsed_per_step_times_steps_to_go() -> None:
    assert seconds_left(30.0, 3, 10) == "1:10"  # 10 s a step, 7 to go
    assert seconds_left(5.0, 0, 10) == "?"


def test_time_left_after_a_resume_counts_only_what_was_done_now() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream, clock=Clock())  # begun at 10
    lines("contexts", 50, 100)  # 20: taken up at 50
    lines("contexts", 60, 100)  # 30: 10 done in 10 s, 40 to go
    assert stream.getvalue() == "contexts: 60/100, 0:40 left\n"
