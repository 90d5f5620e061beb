"""One thread for linear algebra that is made of many small products."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread.

    Products of a hundred columns gain nothing from a second thread, and threads that wait for
    each other on a busy machine make them eight times slower.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield
