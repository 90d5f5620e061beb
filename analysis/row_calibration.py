"""How a behavioural row stands to itself in another run, and to the row of a hypothesis."""

import math
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from analysis.agreement import SAME
from analysis.design import Floats
from analysis.held_out import Units
from analysis.inference import UNDEFINED, Interval, around, mean_interval, ratio_interval
from analysis.row_result import EQUIVALENT
from analysis.row_runs import Cells, RowRuns, crossing_pairs

LEAST_SHARE = 0.8
# Two sizes whose rows differ by more than a quarter of their length measure two different things.
LINEAR_WITHIN = 0.25
# What a row varies within a context below this share of its squares is rounding.
ROUNDING = 1e-12

Linear = Literal["agree", "do not agree", "not separable", "undefined"]
Equality = Literal["equals", "does not equal", "not separable", "undefined"]


class RowSums(NamedTuple):
    """Sums over the known cells of each context, (C,); the row's mean in the context is taken off.

    total: of the squared row, mean over runs. crossed: of products of runs that share neither size
    nor order, mean over such pairs; NaN with a single run. in_order: of products of runs in one
    order with two sizes, the like for a learner whose row depends on the order; NaN with one size.
    raw: of the squared row as it is, its mean not taken off.
    """

    total: Floats
    crossed: Floats
    in_order: Floats
    raw: Floats


class Calibration(NamedTuple):
    """The behavioural row regressed on the row of a hypothesis, within contexts.

    slope: 1 where the row is the hypothesis' own, below 1 where it is a fraction of it.
    r2: share of the row's variance within contexts that the fit explains, a single run.
    share_of_reliability: r2 over the reliability, 1 where the hypothesis explains all that two
    runs share; sampling can bring it above 1. NaN where a row does not vary within any context.
    """

    slope: Interval
    r2: Interval
    share_of_reliability: Interval


def within_context(values: Floats, known: Cells) -> Floats:
    """Values (..., C, M, N) less their mean over the known cells of each context, 0 elsewhere."""
    counted = np.maximum(known.sum(axis=(-2, -1), keepdims=True), 1)
    filled = np.where(known, values, 0.0)
    mean = filled.sum(axis=(-2, -1), keepdims=True) / counted
    apart = np.where(known, filled - mean, 0.0)
    rounding = summed(apart**2) <= ROUNDING * summed(filled**2)
    return np.where(rounding[..., None, None], 0.0, apart)


def summed(values: Floats) -> Floats:
    """Sum over the queries and examples of each context, (..., C)."""
    return np.asarray(values.sum(axis=(-2, -1)))


def row_sums(row_runs: RowRuns) -> RowSums:
    """Sums of squares and of products between runs; see `RowSums`."""
    known = row_runs.known
    centred = within_context(row_runs.values, known)
    sizes, orders = row_runs.values.shape[:2]
    same_order = [
        ((one, order), (other, order))
        for order in range(orders)
        for one, other in combinations(range(sizes), 2)
    ]
    return RowSums(
        total=summed(centred**2).mean(axis=(0, 1)),
        crossed=mean_product(centred, list(crossing_pairs(sizes, orders))),
        in_order=mean_product(centred, same_order),
        raw=summed(np.where(known, row_runs.values, 0.0) ** 2).mean(axis=(0, 1)),
    )


def mean_product(centred: Floats, pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> Floats:
    """Sum of products (C,) of two runs, mean over the pairs; NaN without a pair."""
    if not pairs:
        return np.full(centred.shape[2], np.nan)
    return np.asarray(np.mean([summed(centred[a] * centred[b]) for a, b in pairs], axis=0))


def reliability(sums: RowSums, units: Units) -> Interval:
    """Covariance of runs that share neither size nor order over their mean variance.

    The correlation of two runs where they vary alike; the most that any fixed row can explain of
    one run. NaN with a single run.
    """
    return ratio_interval(*(units.mean(one[:, None]) for one in (sums.crossed, sums.total)))


def linearity(row_runs: RowRuns, units: Units) -> tuple[Interval, Linear]:
    """Root mean square difference of the first and the last size's rows over their mean length.

    0 where the answer is linear in y between the two. "agree" where the interval ends below .25,
    "do not agree" where it begins above. NaN with one size.
    """
    if len(row_runs.sizes) < 2:
        return UNDEFINED, "undefined"
    known = row_runs.known
    first, last = row_runs.values[0], row_runs.values[-1]
    apart = summed(np.where(known, first - last, 0.0) ** 2).mean(axis=0)
    length = summed(np.where(known, first, 0.0) ** 2 + np.where(known, last, 0.0) ** 2)
    squared = ratio_interval(
        *(units.mean(one[:, None]) for one in (apart, length.mean(axis=0) / 2))
    )
    found = Interval(*(math.sqrt(max(bound, 0.0)) for bound in squared))
    if not math.isfinite(found.low):
        return found, "undefined"
    if found.high <= LINEAR_WITHIN:
        return found, "agree"
    return found, "do not agree" if found.low > LINEAR_WITHIN else "not separable"


def row_total(row_runs: RowRuns, units: Units) -> Interval:
    """What a row sums to over the examples, mean over runs and queries; 1 for least squares.

    Queries with an unmeasured cell are left out.
    """
    return mean_interval(units.mean(row_runs.mean.sum(axis=2)))


def calibration(row_runs: RowRuns, sums: RowSums, hypothesis: Floats, units: Units) -> Calibration:
    """Regress the row on a hypothesis' rows (O, C, M, N), all runs together.

    The reliability is that over orders, unless the hypothesis' own row depends on the order: then
    two orders cannot be expected to agree, and it is that over sizes.
    """
    ordered = bool(np.abs(hypothesis - hypothesis[0]).max() > SAME)
    known = row_runs.known
    own = within_context(hypothesis, known)
    run = within_context(row_runs.values, known)
    parts = (
        summed(run * own).mean(axis=(0, 1)),
        summed(own**2).mean(axis=0),
        sums.total,
        sums.in_order if ordered else sums.crossed,
    )
    shared, variance, total, crossed = (units.mean(one[:, None]) for one in parts)
    return Calibration(
        slope=ratio_interval(shared, variance),
        r2=squared_ratio(shared, variance, total),
        share_of_reliability=squared_ratio(shared, variance, crossed),
    )


def squared_ratio(shared: Floats, first: Floats, second: Floats) -> Interval:
    """(mean shared)^2 / (mean first x mean second) of one number a unit, interval by linearisation.

    NaN where a mean in the denominator is not above 0.
    """
    known = np.isfinite(shared) & np.isfinite(first) & np.isfinite(second)
    if not known.any():
        return UNDEFINED
    parts = [one[known] for one in (shared, first, second)]
    top, left, right = (float(one.mean()) for one in parts)
    if left <= 0 or right <= 0:
        return UNDEFINED
    ratio = top**2 / (left * right)
    spread = ratio * (-parts[1] / left - parts[2] / right) + 2 * top * parts[0] / (left * right)
    found = around(ratio, spread)
    return found._replace(low=max(found.low, 0.0) if math.isfinite(found.low) else found.low)


def equality(found: Calibration) -> Equality:
    """Whether the row equals the hypothesis': slope within [.8, 1.25] and share at least .8.

    Decided by whole intervals; "not separable" where one of them crosses its bound.
    """
    slope, share = found.slope, found.share_of_reliability
    if not (math.isfinite(slope.low) and math.isfinite(share.low)):
        return "undefined"
    if EQUIVALENT[0] <= slope.low and slope.high <= EQUIVALENT[1] and share.low >= LEAST_SHARE:
        return "equals"
    if slope.high < EQUIVALENT[0] or slope.low > EQUIVALENT[1] or share.high < LEAST_SHARE:
        return "does not equal"
    return "not separable"


def units_needed(found: Calibration, units: int) -> int | None:
    """About how many units would decide that the row equals the hypothesis'.

    Intervals narrow with the root of the number of units. None where the estimates themselves lie
    outside the bounds, so that more units cannot be expected to say "equals".
    """
    slope, share = found.slope, found.share_of_reliability
    room = [
        (slope.estimate - EQUIVALENT[0], slope.estimate - slope.low),
        (EQUIVALENT[1] - slope.estimate, slope.high - slope.estimate),
        (share.estimate - LEAST_SHARE, share.estimate - share.low),
    ]
    if not all(gap > 0 for gap, _ in room):
        return None
    return math.ceil(units * max((half / gap) ** 2 for gap, half in room) - 1e-6)
