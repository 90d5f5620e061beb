"""How many threads a forward is fastest with: on a busy machine a second one can cost tenfold."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fastest_threads(
    run: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter
) -> Iterator[int]:
    """Time `run` with one thread and with all, use the faster count inside, then the former one.

    Results do not depend on the count beyond rounding; only the time does.
    """
    before = torch.get_num_threads()
    seconds = {}
    try:
        for threads in sorted({1, before}):
            torch.set_num_threads(threads)
            begun = clock()
            run()
            seconds[threads] = clock() - begun
        best = min(seconds, key=lambda threads: (seconds[threads], threads))
        torch.set_num_threads(best)
        yield best
    finally:
        torch.set_num_threads(before)
