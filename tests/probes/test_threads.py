"""The faster of one thread and all threads is used, and the former count comes back."""

from collections.abc import Iterator

import pytest
import torch

from probes.threads import fastest_threads


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("seconds", "kept"), [({1: 1.0, 2: 9.0}, 1), ({1: 4.0, 2: 2.0}, 2)])
def test_the_faster_count_is_used_inside(seconds: dict[int, float], kept: int) -> None:
    """The clock is moved by as much as the count in force is said to take."""
    now = 0.0

    def run() -> None:
        nonlocal now
        now += seconds[torch.get_num_threads()]

    with fastest_threads(run, clock=lambda: now) as best:
        assert best == kept
        assert torch.get_num_threads() == kept
    assert torch.get_num_threads() == 2


def test_one_thread_is_timed_once() -> None:
    torch.set_num_threads(1)
    runs = []
    with fastest_threads(lambda: runs.append(torch.get_num_threads())):
        assert runs == [1]


def test_a_run_that_fails_leaves_the_count_as_it_was() -> None:
    def fail() -> None:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError), fastest_threads(fail):
        pass
    assert torch.get_num_threads() == 2
