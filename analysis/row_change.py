"""How much of a row is the least-squares row, before and after a change to the model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.centring import double_centred
from analysis.design import Floats
from analysis.inference import UNDEFINED, Interval, around

Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """A row before and after some heads were changed, and the row it is compared with.

    before, after, target: (C, M, N), in codec coordinates; random: (D, C, M, N), after the change
    of each random set, None where those were not run.
    """

    before: Floats
    after: Floats
    target: Floats
    random: Floats | None = None


class RowChange(NamedTuple):
    """The part of a row that lies along the target row, before and after, over units.

    slope: of the row on the target row, 1 where the row is the target; share: of the row's
    query-centred variance, in [0, 1]. difference: the share's change of the named heads less the
    mean change of the random sets, undefined without them. All query-centred (centred over
    examples, then over queries), with skewness-corrected t intervals by linearisation, paired by
    unit; NaN where undefined (one query a context, rows that do not see the query). dropped:
    contexts left out because a row was not finite.
    """

    slope_before: Interval
    slope_after: Interval
    slope_change: Interval
    share_before: Interval
    share_after: Interval
    share_change: Interval
    share_change_random: tuple[Interval, ...]
    difference: Interval
    units: int
    dropped: int


class Varying(NamedTuple):
    """An estimate, and how it varies with each unit (its influence, mean 0)."""

    estimate: float
    influence: Floats

    def less(self, other: "Varying") -> "Varying":
        """The difference of two estimates over the same units."""
        return Varying(self.estimate - other.estimate, self.influence - other.influence)

    def interval(self, *, comparisons: int = 1) -> Interval:
        """The estimate with its interval over units; NaN where it is not finite."""
        if not np.isfinite(self.estimate):
            return UNDEFINED
        return around(self.estimate, self.influence, comparisons=comparisons)


def row_change(
    rows: Rows, *, blocks: Sequence[int] | None = None, comparisons: int = 1
) -> RowChange:
    """Slope and share of the target row in a row, before and after, with paired intervals.

    blocks: the resampled unit of each context where contexts are not independent. comparisons:
    how many differences hold together at 95 %. Refuses arrays of unlike shapes.
    """
    random = _checked(rows)
    finite = np.isfinite(np.concatenate([np.stack(rows[:3]), random])).all(axis=(0, 2, 3))
    names = np.arange(len(finite)) if blocks is None else np.asarray(blocks)
    places: Integers = np.unique(names[finite], return_inverse=True)[1].astype(np.int64)
    target, before, after, *drawn = (
        double_centred(part[finite]) for part in (rows.target, rows.before, rows.after, *random)
    )
    slopes = [slope(row, target, places) for row in (before, after)]
    shares = [share(row, target, places) for row in (before, after)]
    changes = [share(row, target, places).less(shares[0]) for row in drawn]
    changed = shares[1].less(shares[0])
    beside = changed.less(mean_of(changes)) if changes else None
    return RowChange(
        slope_before=slopes[0].interval(),
        slope_after=slopes[1].interval(),
        slope_change=slopes[1].less(slopes[0]).interval(),
        share_before=shares[0].interval(),
        share_after=shares[1].interval(),
        share_change=changed.interval(),
        share_change_random=tuple(one.interval() for one in changes),
        difference=UNDEFINED if beside is None else beside.interval(comparisons=comparisons),
        units=int(places.max(initial=-1)) + 1,
        dropped=int((~finite).sum()),
    )


def slope(rows: Floats, target: Floats, places: Integers) -> Varying:
    """Regression of centred rows (C, M, N) on the target row, through 0; NaN of a target of 0."""
    cross, size = sums(rows * target, places), sums(target**2, places)
    whole = size.mean() if len(size) else 0.0
    if whole <= 0:
        return Varying(np.nan, np.full(len(size), np.nan))
    estimate = float(cross.mean() / whole)
    return Varying(estimate, (cross - estimate * size) / whole)


def share(rows: Floats, target: Floats, places: Integers) -> Varying:
    """Share of the variance of centred rows (C, M, N) along the target row, in [0, 1].

    NaN where rows or target are 0 throughout.
    """
    cross, size = sums(rows * target, places), sums(target**2, places)
    own = sums(rows**2, places)
    whole = size.mean() * own.mean() if len(size) else 0.0
    if whole <= 0:
        return Varying(np.nan, np.full(len(size), np.nan))
    estimate = float(cross.mean() ** 2 / whole)
    of_cross = 2 * cross.mean() * (cross - cross.mean()) / whole
    of_sizes = size / size.mean() + own / own.mean() - 2
    return Varying(estimate, of_cross - estimate * of_sizes)


def mean_of(estimates: Sequence[Varying]) -> Varying:
    """The mean of some estimates over the same units."""
    return Varying(
        float(np.mean([one.estimate for one in estimates])),
        np.mean([one.influence for one in estimates], axis=0),
    )


def sums(values: Floats, places: Integers) -> Floats:
    """Sum of values (C, M, N) over each unit, (units,)."""
    totals = np.zeros(int(places.max(initial=-1)) + 1)
    np.add.at(totals, places, values.sum(axis=(1, 2)))
    return totals


def _checked(rows: Rows) -> Floats:
    """The random rows, none where there are none; refuses unlike shapes."""
    shape = rows.target.shape
    random = np.empty((0, *shape)) if rows.random is None else rows.random
    for name, part in (("before", rows.before), ("after", rows.after)):
        if part.shape != shape or len(shape) != 3:
            raise ValueError(
                f"rows {name} needed the shape {shape} (contexts, queries, examples); "
                f"came {part.shape}"
            )
    if random.shape[1:] != shape:
        raise ValueError(
            f"random rows needed the shape (sets, {', '.join(map(str, shape))}); "
            f"came {random.shape}"
        )
    return random
