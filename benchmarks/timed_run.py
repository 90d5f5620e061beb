"""How long one run of a side takes."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Taken(NamedTuple):
    """Seconds of one run: by the clock, and of this process' own processor time."""

    clock: float
    processor: float


def timed(run: Callable[[], object]) -> Taken:
    """The seconds of this run."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    return Taken(time.perf_counter() - clock, time.process_time() - processor)
