"""What heads write about each example, beside the rows of hypotheses: signed, unlike weights."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import Hypothesis, hypothesis_named, rows
from analysis.bootstrap import Intervals
from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats
from analysis.inference import around

BLIND_SHARE = 1e-12
"""Of the largest row's query-centred variance: what is below is rounding."""

RIVALS = {"gd": "gd(1)", "kernel": "kernel(1/3)", "nearest": "nearest(1)"}


class Lines(NamedTuple):
    """R rows of contributions beside the row of a hypothesis; all query-centred but the last two.

    correlation, slope: with the hypothesis' row r (slope: of the contribution on it). with_y:
    correlation with r_i y_i, which a smoother writes about example i where its values carry y.
    gd, kernel, nearest: correlation with the rows of `RIVALS`. Each has a skewness-corrected t
    interval over units; NaN where a row does not vary within a context.
    negative: share of the row's absolute sum that is below 0, (R,). size: root mean square over
    answers of the row's sum over examples, (R,).
    """

    correlation: Intervals
    slope: Intervals
    with_y: Intervals
    gd: Intervals
    kernel: Intervals
    nearest: Intervals
    negative: Floats
    size: Floats


def contribution_lines(
    contributions: NDArray[np.floating],
    contexts: ContextArrays,
    hypothesis: Hypothesis,
    *,
    blocks: Sequence[int] | None = None,
) -> Lines:
    """Compare contributions (C, M, R, N) with the rows of a hypothesis and of its rivals.

    blocks: the resampled unit of each context where contexts are not independent. Refuses
    contributions of another shape than the contexts.
    """
    count, examples = contexts.y.shape
    queries = contexts.queries.shape[1]
    if contributions.ndim != 4 or contributions[:, :, 0].shape != (count, queries, examples):
        raise ValueError(
            f"contributions needed the shape ({count}, {queries}, rows, {examples}); "
            f"came {contributions.shape}"
        )
    names = np.arange(count) if blocks is None else np.asarray(blocks)
    units = np.unique(names, return_inverse=True)[1]
    by_row = np.moveaxis(np.asarray(contributions, dtype=np.float64), 2, 0)
    size = np.abs(by_row).sum(axis=(1, 2, 3))
    below = np.maximum(-by_row, 0).sum(axis=(1, 2, 3))
    own = rows(hypothesis, contexts)
    centred = double_centred(by_row)
    return Lines(
        correlation=_correlations(centred, own, units),
        slope=_slopes(centred, own, units),
        with_y=_correlations(centred, own * contexts.y[:, None, :], units),
        **{
            key: _correlations(centred, rows(hypothesis_named(name), contexts), units)
            for key, name in RIVALS.items()
        },
        negative=np.divide(below, size, out=np.full(len(size), np.nan), where=size > 0),
        size=np.sqrt((by_row.sum(axis=3) ** 2).mean(axis=(1, 2))),
    )


def _correlations(centred: Floats, target: Floats, units: NDArray[np.int64]) -> Intervals:
    """Correlation of each centred row (R, C, M, N) with a target (C, M, N), over units."""
    cross, of_target, of_rows = _products(centred, double_centred(target), units)
    spread = np.sqrt(of_target.mean() * of_rows.mean(axis=1))
    found = np.full((len(cross), 3), np.nan)
    for row in np.flatnonzero((spread > 0) & _varies(of_rows)):
        r = float(cross[row].mean() / spread[row])
        sizes = of_target / of_target.mean() + of_rows[row] / of_rows[row].mean() - 2
        influence = (cross[row] - cross[row].mean()) / spread[row] - r / 2 * sizes
        found[row] = np.clip(around(r, influence), -1.0, 1.0)
    return Intervals(*found.T)


def _slopes(centred: Floats, target: Floats, units: NDArray[np.int64]) -> Intervals:
    """Regression of each centred row (R, C, M, N) on a target (C, M, N), through 0."""
    cross, of_target, of_rows = _products(centred, double_centred(target), units)
    found = np.full((len(cross), 3), np.nan)
    if of_target.mean() > 0:
        for row in np.flatnonzero(_varies(of_rows)):
            slope = float(cross[row].mean() / of_target.mean())
            influence = (cross[row] - slope * of_target) / of_target.mean()
            found[row] = around(slope, influence)
    return Intervals(*found.T)


def _varies(of_rows: Floats) -> NDArray[np.bool_]:
    """Rows (R,) that vary within a context by more than rounding."""
    size = of_rows.mean(axis=1)
    return np.asarray(size > BLIND_SHARE * size.max(initial=0.0))


def _products(
    centred: Floats, target: Floats, units: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats]:
    """Sums over each unit: row x target (R, units), target squared (units,), row squared."""
    by_context = (
        np.einsum("rcmn,cmn->rc", centred, target),
        (target**2).sum(axis=(1, 2))[None],
        np.einsum("rcmn,rcmn->rc", centred, centred),
    )
    count = int(units.max()) + 1
    of_unit = (units[:, None] == np.arange(count)).astype(np.float64)
    cross, of_target, of_rows = (one @ of_unit for one in by_context)
    return cross, of_target[0], of_rows
