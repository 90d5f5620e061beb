"""Regression contexts: examples (x, y) and queries that share them, in numbers as printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from prompts.design import Design
from prompts.numerals import Codec
from prompts.population import Population, coordinates
from prompts.refusal import Refusal

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Drawn = TypeVar("Drawn")

REDRAWS = 10_000


@dataclass(frozen=True, eq=False)
class Context:
    """One context: x (N, P), y (N,), queries (M, P), targets (M,) as printed, float64.

    `targets` are the queries' own y, which no prompt shows. `root` (P, P) is a square root of
    the population covariance of x before printing; None where there is no population (tables).
    """

    x: Floats
    y: Floats
    queries: Floats
    targets: Floats
    root: Floats | None = None


@dataclass(frozen=True, eq=False)
class ContextSet:
    """Contexts of equal shape, their codec, and the study's codec coordinates.

    z = (printed - middle) / half_range, columns x then y (P+1,), is fixed for the whole study.
    `unit` names the resampled unit and `blocks` (C,) says which unit each context belongs to
    (all different where the unit is the context). `preview_reason` is empty, or says why a
    verdict on these contexts is only a preview. `redrawn` counts the contexts that were thrown
    away because a number left the printed range. `design` is None for tables.
    """

    contexts: tuple[Context, ...]
    codec: Codec
    feature_names: tuple[str, ...]
    target_name: str
    middle: Floats
    half_range: Floats
    redrawn: int = 0
    unit: str = "context"
    preview_reason: str = ""
    warnings: tuple[str, ...] = ()
    design: Design | None = None
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.blocks:
            object.__setattr__(self, "blocks", tuple(range(len(self.contexts))))


class Sets(NamedTuple):
    """What a study on synthetic data is fed.

    `order` (C, N): place i of context c in `replicate` prints the x of example order[c, i] of
    `main`. `pairs_a` and `pairs_b` are the re-paired twin contexts, pair by pair.
    """

    main: ContextSet
    replicate: ContextSet
    order: Integers
    pairs_a: ContextSet
    pairs_b: ContextSet


def draw_contexts(design: Design, codec: Codec, *, rng: np.random.Generator) -> ContextSet:
    """Fresh contexts of a design; context c does not depend on how many are drawn.

    A context in which any number leaves the printed range is drawn again whole, and counted.
    """
    drawn = [
        _until_in_range(partial(_context, design, codec), source, design)
        for source in rng.spawn(design.contexts)
    ]
    return _as_set([context for context, _ in drawn], design, codec, sum(n for _, n in drawn))


def replicate(contexts: ContextSet, *, rng: np.random.Generator) -> tuple[ContextSet, Integers]:
    """The same x and queries with a fresh function, offset, noise and order of the examples.

    Returns the new contexts and order (C, N): place i of context c prints the x of example
    order[c, i] of `contexts`. Refuses a table, which has no fresh y.
    """
    design = contexts.design
    if design is None:
        raise Refusal("only synthetic contexts can be run twice with fresh y; these are a table's")
    again, orders, redrawn = [], [], 0
    for context, source in zip(contexts.contexts, rng.spawn(len(contexts.contexts)), strict=True):
        order = source.permutation(len(context.y))
        examples = context.x[order]
        population = _population_of(context, design, contexts.codec)
        y, count = _until_in_range(
            partial(_answers, population, examples, context.queries), source, design
        )
        n = len(order)
        again.append(replace(context, x=examples, y=y[:n], targets=y[n:]))
        orders.append(order)
        redrawn += count
    return replace(contexts, contexts=tuple(again), redrawn=redrawn), np.array(orders)


def draw_pairs(
    design: Design,
    codec: Codec,
    *,
    pairs: int = 32,
    probes: int = 10,
    fillers: int = 10,
    rng: np.random.Generator,
) -> tuple[ContextSet, ContextSet]:
    """Re-paired twin contexts: equal but for which filler carries which last feature.

    The first `probes` examples, their y, and the queries are identical in both contexts of a
    pair. The fillers after them carry the same numerals in every feature, but in B the largest
    value of the last feature stands where the smallest stood in A, the second largest where the
    second smallest stood, and so on: the means and spreads of every feature stay, the fillers'
    cross-products of the last feature with the others change sign. Their y follows from the same
    function, offset and noise draws. A pair in which a number leaves the printed range or a
    cross-product keeps its sign is drawn again whole, and counted. Refuses fewer than two features.
    """
    if design.features < 2:
        raise Refusal(f"re-paired twin contexts need 2 features; came {design.features}")
    design = replace(design, examples=probes + fillers, contexts=pairs)
    drawn = [
        _until_in_range(partial(_pair, design, codec, probes), source, design)
        for source in rng.spawn(pairs)
    ]
    redrawn = sum(count for _, count in drawn)
    sides = [[pair[side] for pair, _ in drawn] for side in (0, 1)]
    return _as_set(sides[0], design, codec, redrawn), _as_set(sides[1], design, codec, redrawn)


def draw_sets(design: Design, codec: Codec, *, pairs: int = 32, rng: np.random.Generator) -> Sets:
    """All contexts of a study, from independent streams of `rng`; see `Sets`.

    With one feature there are no re-paired twins: `pairs_a` and `pairs_b` hold no context.
    """
    for_main, for_replicate, for_pairs = rng.spawn(3)
    main = draw_contexts(design, codec, rng=for_main)
    again, order = replicate(main, rng=for_replicate)
    if design.features < 2:
        nothing = replace(main, contexts=(), redrawn=0, blocks=())
        return Sets(main, again, order, nothing, nothing)
    return Sets(main, again, order, *draw_pairs(design, codec, pairs=pairs, rng=for_pairs))


def _until_in_range(
    draw: Callable[[np.random.Generator], Drawn | None], rng: np.random.Generator, design: Design
) -> tuple[Drawn, int]:
    for redrawn in range(REDRAWS):
        drawn = draw(rng)
        if drawn is not None:
            return drawn, redrawn
    raise Refusal(f"{REDRAWS:,} draws gave no context within the printed range; came {design!r}")


def _as_set(contexts: Sequence[Context], design: Design, codec: Codec, redrawn: int) -> ContextSet:
    middle, half_range = coordinates(design, codec)
    names = tuple(f"x{j + 1}" for j in range(design.features))
    return ContextSet(
        tuple(contexts), codec, names, "y", middle, half_range, redrawn=redrawn, design=design
    )


def _population_of(context: Context, design: Design, codec: Codec) -> Population:
    assert context.root is not None
    return Population(design, codec, context.root)


def _answers(
    population: Population, x: Floats, queries: Floats, rng: np.random.Generator
) -> Floats | None:
    every = population.print_y(np.concatenate([x, queries]), examples=len(x), rng=rng)
    return None if every is None else every[0]


def _points(population: Population, rng: np.random.Generator) -> Floats | None:
    """Examples and pushed queries as printed, (N + M, P); None out of range."""
    design = population.design
    n = design.examples
    x = population.points(n + design.queries, rng)
    weakest = np.linalg.svd(x[:n] - x[:n].mean(axis=0))[2][-1]
    side = rng.choice([-1.0, 1.0], design.queries)
    x[n:] += design.query_push * side[:, None] * weakest
    return population.print_x(x)


def _context(design: Design, codec: Codec, rng: np.random.Generator) -> Context | None:
    population = Population.drawn(design, codec, rng)
    x, n = _points(population, rng), design.examples
    if x is None:
        return None
    y = _answers(population, x[:n], x[n:], rng)
    return None if y is None else Context(x[:n], y[:n], x[n:], y[n:], population.root)


def _pair(
    design: Design, codec: Codec, probes: int, rng: np.random.Generator
) -> tuple[Context, Context] | None:
    population = Population.drawn(design, codec, rng)
    x, n = _points(population, rng), design.examples
    if x is None:
        return None
    twin = x.copy()
    last = x[probes:n, -1]
    ranked = np.argsort(last, kind="stable")
    twin[probes + ranked, -1] = last[ranked[::-1]]
    if not (_cross_products(x[probes:n]) * _cross_products(twin[probes:n]) < 0).all():
        return None
    every = population.print_y(x, twin, examples=n, rng=rng)
    if every is None:
        return None
    sides = zip((x, twin), every, strict=True)
    a, b = (Context(s[:n], y[:n], s[n:], y[n:], population.root) for s, y in sides)
    return a, b


def _cross_products(x: Floats) -> Floats:
    """Centred cross-products of the last feature with each other one: (P-1,)."""
    centred = x - x.mean(axis=0)
    return np.asarray(centred[:, :-1].T @ centred[:, -1])
