"""Behavioural rows as they are measured: sizes of the change, orders of the examples, gaps."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import Hypothesis, rows
from analysis.design import ContextArrays, Floats

Orders = NDArray[np.int64]
Cells = NDArray[np.bool_]


class RowRuns(NamedTuple):
    """The behavioural row of every context, measured with D sizes and in O orders.

    values: (D, O, C, M, N), change of the mean answer to a query for a change of an example's y,
        a pure number; example i at the place that it has in the main contexts (`at_main_places`).
        NaN where it could not be measured, as where y would leave the codec's range.
    sizes: (D,), by how much y was changed to either side, codec units.
    orders: (O, C, N), the index in the main contexts of the example at each place; the first is
        0 .. N - 1, the main contexts themselves.
    """

    values: Floats
    sizes: Floats
    orders: Orders

    @property
    def known(self) -> Cells:
        """Cells that every run measured, (C, M, N); only these are counted."""
        return np.asarray(np.isfinite(self.values).all(axis=(0, 1)))

    @property
    def mean(self) -> Floats:
        """The mean row over runs, (C, M, N); NaN where a run has no value."""
        return np.asarray(self.values.mean(axis=(0, 1)))


def rows_of_changes(plus: Floats, minus: Floats, size: float) -> Floats:
    """Central differences (answer at y_i + d minus that at y_i - d) / 2d as rows, (..., M, N).

    plus, minus: (..., N, M), the mean answer to each query with one example's y changed; size: d.
    All in one unit, printed or codec.
    """
    if not size > 0:
        raise ValueError(f"size of the change of y: needed a number above 0; came {size!r}")
    return np.asarray(np.swapaxes((plus - minus) / (2.0 * size), -1, -2))


def at_main_places(values: Floats, order: Orders) -> Floats:
    """Rows (..., C, M, N) measured in `order` (C, N), each example put at its main place."""
    aligned = np.empty_like(values)
    for context, places in enumerate(order):
        aligned[..., context, :, places] = np.moveaxis(values[..., context, :, :], -1, 0)
    return aligned


def reordered(contexts: ContextArrays, order: Orders) -> ContextArrays:
    """The same contexts with the examples in `order` (C, N)."""
    return contexts._replace(
        x=np.take_along_axis(contexts.x, order[:, :, None], axis=1),
        y=np.take_along_axis(contexts.y, order, axis=1),
        x_text=np.take_along_axis(contexts.x_text, order[:, :, None], axis=1),
    )


def main_order(contexts: ContextArrays) -> Orders:
    """The order of the main contexts themselves, (C, N)."""
    count, examples = contexts.y.shape
    return np.tile(np.arange(examples), (count, 1))


def hypothesis_runs(hypothesis: Hypothesis, contexts: ContextArrays, orders: Orders) -> Floats:
    """The rows of a hypothesis in each order, examples at their main places, (O, C, M, N)."""
    return np.stack(
        [at_main_places(rows(hypothesis, reordered(contexts, one)), one) for one in orders]
    )


def row_test_scores(row_runs: RowRuns) -> Floats:
    """The mean row as the row test takes it, (C, M, 1, N).

    The test sees one row whose scores are the behavioural row; with a cell that no run could
    measure it calls the row "outside" and leaves it untested.
    """
    return row_runs.mean[:, :, None, :]


def checked_runs(row_runs: RowRuns, contexts: ContextArrays) -> None:
    """Refuse runs whose shapes do not fit the contexts, sizes not above 0, orders not permuted."""
    count, examples = contexts.y.shape
    needed = (len(row_runs.sizes), len(row_runs.orders), count, contexts.queries.shape[1], examples)
    if row_runs.values.shape != needed or 0 in needed:
        raise ValueError(
            f"behavioural rows: needed the shape {needed} (sizes, orders, contexts, queries, "
            f"examples); came {row_runs.values.shape}"
        )
    sizes = np.asarray(row_runs.sizes, dtype=np.float64)
    if not (sizes > 0).all() or len(np.unique(sizes)) < len(sizes):
        raise ValueError(
            f"sizes of the change of y: needed different numbers above 0; came {sizes.tolist()}"
        )
    places = np.arange(examples)
    if not np.array_equal(
        np.sort(row_runs.orders, axis=2), np.broadcast_to(places, needed[1:3] + (examples,))
    ):
        raise ValueError(
            f"orders: needed every number 0 to {examples - 1} once for each order and context"
        )
    if not (row_runs.orders[0] == places).all():
        raise ValueError("orders: needed the main order first")


def crossing_pairs(sizes: int, orders: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of runs that share neither size nor order, of what there is more than one of."""
    runs = list(product(range(sizes), range(orders)))
    for place, one in enumerate(runs):
        for other in runs[place + 1 :]:
            apart = [
                a != b for a, b, many in zip(one, other, (sizes, orders), strict=True) if many > 1
            ]
            if all(apart):
                yield one, other
