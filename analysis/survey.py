"""Every hypothesis by itself: the row that it explains best. Description, not a test."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import Hypothesis, scores
from analysis.baseline import unit_scale
from analysis.bootstrap import ratio_intervals, resampled_counts
from analysis.centring import centred_columns
from analysis.design import ContextArrays
from analysis.folds import assign_folds, folded, held_out_error
from analysis.inference import Interval
from analysis.moments import by_block, row_moments


class Alone(NamedTuple):
    """The row that one hypothesis explains best, with no other column beside it.

    row: its index, -1 where no row can be judged. explained: share of the row's query-centred
    variance, held out over contexts, with a bootstrap interval over contexts. The row is chosen
    on the same contexts, so that the share of a hypothesis without any effect is above 0.
    """

    hypothesis: str
    row: int
    explained: Interval


def survey(
    rows: NDArray[np.floating],
    contexts: ContextArrays,
    hypotheses: Sequence[Hypothesis],
    *,
    rng: np.random.Generator,
    blocks: Sequence[int] | None = None,
    folds: int = 8,
    resamples: int = 1000,
) -> tuple[Alone, ...]:
    """Every hypothesis that has a row, compared with pre-softmax scores rows (C, M, R, N).

    The score image is used: for kernels the logarithm of the weights. Largest share first.
    `blocks`: the unit of each context, where contexts share rows of a table.
    """
    known = [one for one in hypotheses if one.row is not None]
    columns = centred_columns(np.stack([scores(one, contexts) for one in known], axis=-1))
    found = row_moments(rows, columns / unit_scale(columns))
    undefined = Interval(np.nan, np.nan, np.nan)
    if not len(found.tested):
        return tuple(Alone(one.name, -1, undefined) for one in known)
    moments = found.moments if blocks is None else by_block(found.moments, np.asarray(blocks))
    total = moments.total
    data = folded(moments, assign_folds(len(total), folds, rng=rng))
    counts = resampled_counts(len(total), resamples, rng=rng)
    lines = []
    for column, one in enumerate(known):
        gained = total - held_out_error(data, [column])
        best = int(np.argmax(gained.sum(axis=0) / total.sum(axis=0)))
        shares = ratio_intervals(gained[:, [best]], total[:, [best]], counts)
        lines.append(Alone(one.name, int(found.tested[best]), shares.at(0)))
    return tuple(sorted(lines, key=lambda line: -line.explained.estimate))
