"""The row test: does a row of attention scores hold a component that only S^-1 explains?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis import baseline
from analysis.bank import Hypothesis, hypothesis_named, rows
from analysis.bootstrap import Intervals, ratio_intervals, resampled_counts, undefined
from analysis.design import ContextArrays, Floats
from analysis.flips import corrected_p, flip_signs, max_t_null, t_statistic
from analysis.folds import Comparison, assign_folds, compare, held_out_error, log_ratio
from analysis.moments import Rows, row_moments
from analysis.row_result import CONTAINS, NOTHING, RowTest

LEVEL = 0.05
LEAST_UNIQUE = 0.10
RESAMPLES = 1000


class Replicate(NamedTuple):
    """The same examples and queries with fresh y, noise and order.

    scores: (C, M, R, N), example i at the place it has in the main contexts;
    valid: (C,), False for a context that was not run twice.
    """

    scores: Floats
    valid: NDArray[np.bool_]


class Pairs(NamedTuple):
    """Re-paired twin contexts: scores (C2, M, R, probes) on the examples that both share."""

    scores_a: Floats
    scores_b: Floats
    contexts_a: ContextArrays
    contexts_b: ContextArrays


def row_test(
    scores: Floats,
    contexts: ContextArrays,
    hypotheses: Sequence[str | Hypothesis] = ("ols",),
    *,
    rng: np.random.Generator,
    flips: int = 2000,
    folds: int = 8,
    resamples: int = RESAMPLES,
    replicate: Replicate | None = None,
    pairs: Pairs | None = None,
) -> RowTest:
    """Test every row against every hypothesis, corrected over all of them.

    scores: (C, M, R, N), pre-softmax scores of C contexts, M queries, R rows (the caller says
    which layer, head and part each is) and N examples.
    """
    named = [hypothesis_named(h) if isinstance(h, str) else h for h in hypotheses]
    columns = baseline.columns(contexts)
    own = baseline.prepared(np.stack([rows(h, contexts) for h in named], axis=-1))
    seen = row_moments(scores, np.concatenate([columns.values, own], axis=-1))
    groups = assign_folds(len(scores), folds, rng=rng)
    base = len(columns.names)
    compared = [compare(seen.moments, range(base), base + h, groups) for h in range(len(named))]
    statistic, p = _tested(compared, flip_signs(len(scores), flips, rng=rng))
    return _result(named, seen, compared, statistic, p, groups, flips, resamples, rng)


def _tested(compared: list[Comparison], signs: Floats) -> tuple[Floats, Floats]:
    ratios = np.stack([log_ratio(one) for one in compared], axis=-1)
    statistic = t_statistic(ratios)
    return statistic, corrected_p(statistic, max_t_null(ratios, signs))


def _result(
    named: list[Hypothesis],
    seen: Rows,
    compared: list[Comparison],
    statistic: Floats,
    p: Floats,
    groups: NDArray[np.int64],
    flips: int,
    resamples: int,
    rng: np.random.Generator,
) -> RowTest:
    count, kinds = len(seen.blind), len(named)
    counts = resampled_counts(len(groups), resamples, rng=rng)
    base = seen.moments.gram.shape[1] - kinds
    unique, alone = [], []
    for h, one in enumerate(compared):
        unique.append(
            ratio_intervals(one.without - one.with_column, one.total - one.with_column, counts)
        )
        single = held_out_error(seen.moments, [base + h], groups)
        alone.append(ratio_intervals(one.total - single, one.total, counts))
    coefficient = np.stack([one.coefficient for one in compared], axis=-1)
    positive = (coefficient > 0).sum(axis=0)
    uniques = Intervals(*(np.stack(part, axis=-1) for part in zip(*unique, strict=True)))
    contains = (p <= LEVEL) & (positive == len(coefficient)) & (uniques.estimate >= LEAST_UNIQUE)
    total = sum(one.total.sum(axis=0) for one in compared[:1])
    explained = [1.0 - one.with_column.sum(axis=0) / total for one in compared]

    def wide(values: Floats, empty: float = np.nan) -> Floats:
        full = np.full((count, *values.shape[1:]), empty)
        full[seen.tested] = values
        return full

    says = np.full((count, kinds), NOTHING, dtype="<U80")
    says[seen.tested] = np.where(contains, CONTAINS, NOTHING)
    status = np.where(seen.outside, "outside", np.where(seen.blind, "blind", "tested"))
    return RowTest(
        hypotheses=tuple(h.name for h in named),
        baseline_version=baseline.VERSION,
        contexts=len(groups),
        folds=int(groups.max()) + 1,
        flips=flips,
        status=status,
        t=wide(statistic),
        p_corrected=wide(p),
        coefficient=np.stack([wide(fold) for fold in coefficient]),
        positive_in_folds=wide(positive.astype(float), 0.0).astype(np.int64),
        unique_over_explained=Intervals(*(wide(part) for part in uniques)),
        explained=wide(np.stack(explained, axis=-1)),
        alone=Intervals(*(wide(np.stack(part, axis=-1)) for part in zip(*alone, strict=True))),
        share_of_reproducible=undefined(count, kinds),
        reproducible=undefined(count),
        inversion_index=undefined(count),
        says=says,
        not_assessable="",
        preview="",
    )
