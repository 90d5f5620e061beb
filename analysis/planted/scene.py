"""What a simulated head may look at: one set of contexts and its own random numbers."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analysis import baseline
from analysis.bank.geometry import centred
from analysis.centring import double_centred
from analysis.content_columns import centred_ranks, distances, median_distance
from analysis.design import ContextArrays, Floats


class Scene:
    """Contexts with what many heads share, computed once; `rng` serves the heads' own weights."""

    def __init__(self, contexts: ContextArrays, *, rng: np.random.Generator) -> None:
        self.contexts = contexts
        self.rng = rng

    @cached_property
    def columns(self) -> Mapping[str, Floats]:
        """The raw columns of M0*, all families together."""
        families = baseline.raw_columns(self.contexts)
        return {name: column for family in families.values() for name, column in family.items()}

    @cached_property
    def query(self) -> Floats:
        """Queries (C, M, P) about the mean of the context's examples."""
        return centred(self.contexts)[0]

    @cached_property
    def x(self) -> Floats:
        """Examples (C, N, P) about their mean."""
        return centred(self.contexts)[1]

    @cached_property
    def dot(self) -> Floats:
        """The centred dot product, (C, M, N)."""
        return np.asarray(self.query @ self.x.swapaxes(1, 2))

    @cached_property
    def distance(self) -> Floats:
        """Distance of each query to each example, (C, M, N)."""
        return distances(self.contexts.queries, self.contexts.x)

    @cached_property
    def median(self) -> Floats:
        """Median distance between examples, (C, 1, 1)."""
        return median_distance(self.contexts.x)[:, None, None]

    @cached_property
    def ranks(self) -> tuple[Floats, Floats]:
        """Centred ranks of the queries (C, M, P) and of the examples (C, N, P) per feature."""
        among = self.contexts.x
        return centred_ranks(self.contexts.queries, among), centred_ranks(among, among)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, M, N)."""
        return (*self.contexts.queries.shape[:2], self.contexts.x.shape[1])


Build = Callable[[Scene], Floats]


class Head(NamedTuple):
    """A simulated head: its row before noise, (C, M, N), and the group it is listed in.

    group: "in M0*", "outside M0*" or "inverse". banked: the hypothesis of the bank that it is, if
    it is one: then the inversion index of its row says whether it counts as S^-1.
    """

    name: str
    group: str
    build: Build
    banked: str = ""


def unit_rows(head: Head, scene: Scene) -> Floats:
    """The head's row, centred over examples and queries, of unit sd over all contexts.

    Zeros where the head tells no two examples apart on these contexts.
    """
    return standardised(np.broadcast_to(head.build(scene), scene.shape))


def standardised(row: Floats) -> Floats:
    """A centred row with unit sd over all contexts, for sums in which no part drowns the others."""
    centred_row = double_centred(row)
    return np.asarray(centred_row / (np.sqrt((centred_row**2).mean()) or 1.0))
