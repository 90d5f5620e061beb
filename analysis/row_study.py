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
from analysis.moments import Moments, Rows, by_block, row_moments
from analysis.reproducible import Replicate, Shared, shared_by_block, shared_moments


class Settings(NamedTuple):
    """Sizes of a row test: sign flips, folds over contexts, bootstrap resamples of contexts."""

    flips: int
    folds: int
    resamples: int


class Study(NamedTuple):
    """One set of rows and contexts, prepared.

    data: products of the tested rows, with the fold of each unit (context or block).
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
        """The fold of each unit, (units,)."""
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
    *,
    rng: np.random.Generator,
    settings: Settings,
    replicate: Replicate | None = None,
    blocks: Sequence[int] | Indices | None = None,
) -> Study:
    """Build columns, multiply them with the rows, and draw folds, flips and resamples.

    Units are contexts, or the blocks of contexts that share rows of a table.
    """
    kinds = named(hypotheses)
    columns = assemble(contexts, kinds)
    rows = row_moments(scores, columns.values)
    shared = None
    if replicate is not None and replicate.valid.any():
        shared = shared_moments(scores, replicate, columns.values, rows.tested, rows.scale)
    if blocks is not None:
        owners = checked_blocks(blocks, len(scores))
        rows = rows._replace(moments=by_block(rows.moments, owners))
        shared = shared_by_block(shared, owners) if shared is not None else None
    units = len(rows.moments.gram)
    groups = assign_folds(units, settings.folds, rng=rng)
    signs = flip_signs(units, settings.flips, rng=rng)
    counts = resampled_counts(units, settings.resamples, rng=rng)
    again = counts
    if shared is not None and not shared.valid.any():
        shared = None
    if shared is not None:
        again = resampled_counts(int(shared.valid.sum()), settings.resamples, rng=rng)
    return Study(kinds, columns, rows, folded(rows.moments, groups), signs, counts, shared, again)


def checked_blocks(blocks: Sequence[int] | Indices, contexts: int) -> Indices:
    """The block of each context as an array; refuses another number of them."""
    owners = np.asarray(blocks, dtype=np.int64)
    if owners.shape != (contexts,):
        raise ValueError(
            f"needed one block for each of {contexts} contexts; came the shape {owners.shape!r}"
        )
    return owners


def checked_scores(scores: NDArray[np.floating], contexts: ContextArrays) -> None:
    """Refuse scores whose shape is not (C, M, R, N) of the contexts."""
    count, examples, _ = contexts.x.shape
    needed = (count, contexts.queries.shape[1], examples)
    if scores.ndim != 4 or (*scores.shape[:2], scores.shape[3]) != needed or not scores.shape[2]:
        raise ValueError(
            f"needed scores of shape (contexts, queries, rows, examples) = ({needed[0]}, "
            f"{needed[1]}, at least 1, {needed[2]}); came {scores.shape!r}"
        )
