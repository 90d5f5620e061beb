"""Random heads to compare named ones with: as many of the same layers."""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product
from math import comb, prod
from typing import NamedTuple

import numpy as np

from probes.head_names import Head, HeadGrid


class RandomSets(NamedTuple):
    """Sets of heads drawn beside the named ones; `short` says what could not be had, or nothing."""

    sets: tuple[tuple[Head, ...], ...]
    short: str


def random_sets(
    named: Sequence[Head], grid: HeadGrid, *, draws: int, rng: np.random.Generator
) -> RandomSets:
    """Different sets of heads, each with as many heads of every layer as the named ones.

    Named heads are in none. Where there are no more than `draws` different sets, all of them.
    Where a layer has fewer other heads than named ones the sets take all those others, and
    `short` says so. No set where no layer has any other head.
    """
    counts, others, lacking = [], [], []
    for layer in sorted({head.layer for head in named}):
        rest = [head for head in grid.of_layer(layer) if head not in named]
        asked = sum(head.layer == layer for head in named)
        if len(rest) < asked:
            lacking.append(f"layer {layer} has {len(rest)} other heads for {asked} named")
        counts.append(min(asked, len(rest)))
        others.append(rest)
    if not any(counts):
        return RandomSets((), "; ".join([*lacking, "no other heads to compare with"]))
    possible = prod(comb(len(rest), k) for rest, k in zip(others, counts, strict=True))
    if possible <= draws:
        if possible < draws:
            lacking.append(f"{possible} different sets of other heads where {draws} were asked")
        every = product(*(combinations(r, k) for r, k in zip(others, counts, strict=True)))
        return RandomSets(tuple(sum(one, ()) for one in every), "; ".join(lacking))
    fresh = iter(lambda: _one_set(others, counts, rng), None)
    return RandomSets(tuple(islice(_different(fresh), draws)), "; ".join(lacking))


def _one_set(
    others: Sequence[Sequence[Head]], counts: Sequence[int], rng: np.random.Generator
) -> tuple[Head, ...]:
    return tuple(
        rest[place]
        for rest, k in zip(others, counts, strict=True)
        for place in sorted(rng.choice(len(rest), k, replace=False))
    )


def _different(sets: Iterator[tuple[Head, ...]]) -> Iterator[tuple[Head, ...]]:
    seen = set()
    for one in sets:
        if one not in seen:
            seen.add(one)
            yield one
