"""Contexts in which one printed number is moved up or down: what a difference quotient is fed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prompts.contexts import Context, ContextSet, Floats, Integers
from prompts.numerals import Codec
from prompts.refusal import Refusal

Edge = Literal["shift", "refuse"]

EDGES = ("shift", "refuse")


class Pairs(NamedTuple):
    """For each number two others on the printed grid, 2 `size` apart, both within the range.

    `plus` and `minus` have the numbers' shape and are number + size and number - size, except
    where `shifted` (bool): there the pair was moved inward as a whole, since one of the two would
    have left the codec's range.
    """

    plus: Floats
    minus: Floats
    size: float
    shifted: NDArray[np.bool_]


def checked_size(size: float, codec: Codec) -> float:
    """The size of a move on the codec's printed grid.

    Refuses a size that is not a positive multiple of the last printed decimal, and one of which
    two do not fit the codec's range.
    """
    step = 10.0**-codec.decimals
    on_grid = float(codec.round(size)) if np.isfinite(size) else 0.0
    if on_grid <= 0 or abs(on_grid - size) > 1e-6 * step:
        raise Refusal(
            f"needed a size that is a positive multiple of {step:g}, the last decimal that codec "
            f"{codec.name!r} prints; came {size!r}"
        )
    if 2 * on_grid > codec.high - codec.low + 1e-6 * step:
        raise Refusal(
            f"needed numbers 2 x {on_grid:g} apart within {_range(codec)}, which is narrower; "
            f"came size {size!r}"
        )
    return on_grid


def moved_pairs(
    numbers: ArrayLike,
    codec: Codec,
    *,
    size: float,
    edge: Edge = "shift",
    place: Callable[[tuple[int, ...]], str] = str,
) -> Pairs:
    """Each number moved up and down by `size`, on the printed grid.

    `edge`: what happens where number + size or number - size leaves the codec's range. "shift"
    moves the pair inward as a whole, so that the two stay 2 size apart; "refuse" refuses.
    `place` names a number, by its index, in such a refusal.
    """
    if edge not in EDGES:
        raise Refusal(f"needed edge 'shift' or 'refuse'; came {edge!r}")
    step = checked_size(size, codec)
    printed = codec.round(numbers)
    inward = _overshoot(codec.low - printed + step) - _overshoot(printed + step - codec.high)
    shifted = codec.round(inward) != 0
    if edge == "refuse" and shifted.any():
        first = tuple(int(axis) for axis in np.argwhere(shifted)[0])
        raise Refusal(
            f"needed a number that stays within {_range(codec)} when it moves by {step:g} either "
            f"way; came {codec.text(printed[first])}",
            where=place(first),
        )
    middle = codec.round(printed + inward)
    return Pairs(codec.round(middle + step), codec.round(middle - step), step, shifted)


def _overshoot(by: Floats) -> Floats:
    return np.maximum(by, 0.0)


def _range(codec: Codec) -> str:
    return f"{codec.numeral(codec.low)} to {codec.numeral(codec.high)}"


def answer_pairs(contexts: ContextSet, index: int, *, size: float, edge: Edge = "shift") -> Pairs:
    """The printed y of every example of context `index`, moved up and down: (N,) each."""
    return moved_pairs(
        contexts.contexts[index].y,
        contexts.codec,
        size=size,
        edge=edge,
        place=lambda at: f"context {index + 1}, example {at[0] + 1}, y",
    )


def query_pairs(contexts: ContextSet, index: int, *, size: float, edge: Edge = "shift") -> Pairs:
    """Every printed feature of every query of context `index`, moved: (M, P) each."""
    return moved_pairs(
        contexts.contexts[index].queries,
        contexts.codec,
        size=size,
        edge=edge,
        place=lambda at: f"context {index + 1}, query {at[0] + 1}, x{at[1] + 1}",
    )


def with_answer(context: Context, example: int, y: float) -> Context:
    """The same context with another y printed in one example."""
    answers = context.y.copy()
    answers[example] = y
    return replace(context, y=answers)


def with_moved_queries(context: Context, pairs: Pairs) -> Context:
    """Its queries, then each with one feature moved: (M + M P 2, P), the last axis up, down."""
    m, p = context.queries.shape
    moved = np.broadcast_to(context.queries[:, None, None], (m, p, 2, p)).copy()
    features = np.arange(p)
    moved[:, features, 0, features] = pairs.plus
    moved[:, features, 1, features] = pairs.minus
    return replace(
        context,
        queries=np.concatenate([context.queries, moved.reshape(-1, p)]),
        targets=np.concatenate([context.targets, np.repeat(context.targets, p * 2)]),
    )


def checked_order(order: ArrayLike, examples: int) -> Integers:
    """An order of the examples; refuses what does not name each of them once, from 0."""
    came = np.asarray(order)
    if came.shape != (examples,) or not np.array_equal(np.sort(came), np.arange(examples)):
        raise Refusal(f"needed an order of the examples 0 to {examples - 1}; came {came.tolist()}")
    return came.astype(np.int64)


def in_order(context: Context, order: ArrayLike) -> Context:
    """The same context with example order[i] printed at place i."""
    places = checked_order(order, len(context.y))
    return replace(context, x=context.x[places], y=context.y[places])


def rows_of_answers(
    answer: Callable[[ContextSet], Floats],
    contexts: ContextSet,
    *,
    size: float,
    edge: Edge = "shift",
    orders: Sequence[ArrayLike] | None = None,
) -> Floats:
    """How far each answer moves per unit of each example's y, (C, M, N), for any answerer.

    ``(answer | y_i + size - answer | y_i - size) / (2 size)``, in printed units, hence without a
    unit: the same in codec coordinates. `answer` gives (C, M) answers in printed units of y to a
    set of contexts; a linear smoother's rows are its weights. It is asked 2 N times. `orders`:
    for each context the order in which its examples are printed (`in_order`); the rows are those
    of the examples as `contexts` has them. Refusals: see `moved_pairs`.
    """
    count = len(contexts.contexts[0].y)
    given = orders if orders is not None else [np.arange(count)] * len(contexts.contexts)
    places = [checked_order(order, count) for order in given]
    printed = replace(
        contexts,
        contexts=tuple(
            in_order(one, order) for one, order in zip(contexts.contexts, places, strict=True)
        ),
    )
    pairs = [answer_pairs(printed, index, size=size, edge=edge) for index in range(len(given))]
    columns = []
    for place in range(count):
        up, down = (
            answer(_edited(printed, place, [getattr(pair, side)[place] for pair in pairs]))
            for side in ("plus", "minus")
        )
        columns.append((up - down) / (2 * pairs[0].size))
    by_place = np.stack(columns, -1)
    rows = np.empty_like(by_place)
    for index, order in enumerate(places):
        rows[index][:, order] = by_place[index]
    return rows


def _edited(contexts: ContextSet, example: int, y: Sequence[float]) -> ContextSet:
    edited = (
        with_answer(one, example, value) for one, value in zip(contexts.contexts, y, strict=True)
    )
    return replace(contexts, contexts=tuple(edited))
