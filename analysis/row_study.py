"""What all steps of one row test share: columns, products, folds, flips and resamples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.assembly import Assembly, assemble, named
from analysis.bank import Hypothesis
from analysis.bootstrap import Intervals, resampled_counts
from analysis.design import ContextArrays, Floats
from analysis.flips import flip_signs
from analysis.folds import Folded, Indices, assign_folds, folded
from analysis.moments import Moments, Rows, row_moments
from analysis.reproducible import Replicate, Shared, shared_moments


class Settings(NamedTuple):
    """Sizes of a row test: sign flips, folds over contexts, bootstrap resamples of contexts."""

    flips: int
    folds: int
    resamples: int


class Study(NamedTuple):
    """One set of rows and contexts, prepared.

    data: products of the tested rows, with the fold of each context.
    signs: (B, C). counts: (resamples, C).
    shared and shared_counts: the products with the replicate, None where there is none.
    """

    hypotheses: list[Hypothesis]
    columns: Assembly
    rows: Rows
    data: Folded
    signs: Floats
    counts: Floats
    shared: Shared | None
    shared_counts: Floats

    @property
    def moments(self) -> Moments:
        """Products of the tested rows."""
        return self.rows.moments

    @property
    def groups(self) -> Indices:
        """The fold of each context, (C,)."""
        return self.data.groups

    def wide(self, values: NDArray[np.generic], empty: float = np.nan) -> Floats:
        """Values (tested rows, ...) at the places of all rows."""
        full = np.full((len(self.rows.blind), *values.shape[1:]), empty)
        full[self.rows.tested] = values
        return full

    def wide_intervals(self, intervals: Intervals) -> Intervals:
        """Intervals (tested rows, ...) at the places of all rows."""
        return Intervals(*(self.wide(bound) for bound in intervals))


def prepare(
    scores: NDArray[np.floating],
    contexts: ContextArrays,
    hypotheses: Sequence[str | Hypothesis],
    replicate: Replicate | None,
    *,
    rng: np.random.Generator,
    settings: Settings,
) -> Study:
    """Build columns, multiply them with the rows, and draw folds, flips and resamples."""
    kinds = named(hypotheses)
    columns = assemble(contexts, kinds)
    rows = row_moments(scores, columns.values)
    groups = assign_folds(len(scores), settings.folds, rng=rng)
    signs = flip_signs(len(scores), settings.flips, rng=rng)
    counts = resampled_counts(len(scores), settings.resamples, rng=rng)
    shared, again = None, counts
    if replicate is not None and replicate.valid.any():
        shared = shared_moments(scores, replicate, columns.values, rows.tested, rows.scale)
        again = resampled_counts(int(replicate.valid.sum()), settings.resamples, rng=rng)
    return Study(kinds, columns, rows, folded(rows.moments, groups), signs, counts, shared, again)


def checked_scores(scores: NDArray[np.floating], contexts: ContextArrays) -> None:
    """Refuse scores whose shape is not (C, M, R, N) of the contexts."""
    count, examples, _ = contexts.x.shape
    needed = (count, contexts.queries.shape[1], examples)
    if scores.ndim != 4 or (*scores.shape[:2], scores.shape[3]) != needed:
        raise ValueError(
            f"needed scores of shape (contexts, queries, rows, examples) = ({needed[0]}, "
            f"{needed[1]}, any, {needed[2]}); came {scores.shape!r}"
        )
