"""The behaviour label of many simulated studies at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from analysis.agreement import are_kin
from analysis.design import Floats
from analysis.held_out import Units
from analysis.inference import ALPHA

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]


class Design(NamedTuple):
    """What all simulated studies share.

    predictions: (H, C, M); readable: (C, M); spread: (C, M), None where all queries count;
    variance: (units,), of y.
    """

    predictions: Floats
    readable: Bools
    spread: Floats | None
    units: Units
    variance: Floats


class Rates(NamedTuple):
    """Shares of runs with one hypothesis in the model's place; see `Separability`."""

    named: Floats
    not_separable: float
    right: float
    wrong: float
    told: Floats
    mistaken: Floats


def label_rates(nearest: Bools, kinds: Sequence[tuple[str, int]], true: int) -> Rates:
    """Rates of labels from the nearest sets (R, H), hypotheses in order, the simplest first.

    kinds: of each hypothesis (`analysis.agreement.kin`).
    """
    speaker = nearest.argmax(axis=1)
    sets, which = np.unique(nearest, axis=0, return_inverse=True)
    kin = [
        are_kin([kind for kind, inside in zip(kinds, row, strict=True) if inside]) for row in sets
    ]
    together = np.array(kin)[which.ravel()]
    held = nearest[:, true]
    named = (speaker[:, None] == np.arange(nearest.shape[1])) & together[:, None]
    return Rates(
        named=named.mean(axis=0),
        not_separable=float((~together).mean()),
        right=float((together & held).mean()),
        wrong=float((together & ~held).mean()),
        told=(~nearest).mean(axis=0),
        mistaken=(~held[:, None] & nearest).mean(axis=0),
    )


def nearest_sets(design: Design, answers: Floats) -> Bools:
    """For every run (R, C, M) of answers which hypotheses are among the nearest, (R, H)."""
    first = unit_means(design, answers, design.predictions, None)
    count = np.isfinite(first).sum(axis=2)
    leader = (np.nansum(first, axis=2) / np.maximum(count, 1)).argmin(axis=1)
    nearest = np.zeros((len(answers), len(design.predictions)), dtype=bool)
    for place in np.unique(leader):
        runs = leader == place
        lead = unit_means(design, answers[runs], design.predictions, int(place))
        nearest[runs] = stepped_down(lead, design.variance, int(place))
    return nearest


def unit_means(design: Design, answers: Floats, predictions: Floats, leader: int | None) -> Floats:
    """Mean over a unit's queries of (answer - prediction)^2, less the leader's, (R, H, units).

    What every hypothesis shares, the answer squared, is left out where there is no leader.
    """
    base = predictions[leader] if leader is not None else np.zeros_like(predictions[0])
    counted = np.broadcast_to(design.readable, predictions.shape)
    if leader is not None and design.spread is not None:
        counted = counted & (np.abs(predictions - base) > design.spread)
    fixed = np.where(counted, predictions**2 - base**2, 0.0)
    slope = np.where(counted, 2.0 * (base - predictions), 0.0)
    filled = np.where(design.readable, answers, 0.0)
    moved = np.matmul(filled.transpose(1, 0, 2), slope.transpose(1, 2, 0))
    sums = moved.transpose(1, 2, 0) + fixed.sum(axis=2)
    member = (design.units.of_context[:, None] == np.arange(design.units.size)).astype(np.float64)
    number = counted.sum(axis=2) @ member
    return np.asarray((sums @ member) / np.where(number > 0, number, np.nan))


def stepped_down(lead: Floats, variance: Floats, leader: int) -> Bools:
    """Which hypotheses (R, H) are not separated from the leader; lead: (R, H, units).

    The steps of `analysis.agreement.behind_nearest` for all runs at once.
    """
    bounds = ratio_bounds(lead, variance)
    left = np.ones(lead.shape[:2], dtype=bool)
    while True:
        comparisons = np.maximum(left.sum(axis=1) - 1, 1)
        still = left & ~(bounds.low(comparisons) > 0)
        still[:, leader] = True
        if (still == left).all():
            return still
        left = still


class RatioBounds(NamedTuple):
    """Intervals as `analysis.inference.ratio_interval` makes them, for (R, H) ratios at once.

    ratio, error (standard error), skewness: (R, H); number: (H,), units behind each.
    """

    ratio: Floats
    error: Floats
    skewness: Floats
    number: Counts

    def low(self, comparisons: Counts) -> Floats:
        """Lower ends, widened for that many comparisons in each run (R,); NaN below two units."""
        freedom = np.where(self.number > 1, self.number - 1.0, np.nan)
        quantile = stdtrit(freedom, 1 - ALPHA / 2 / comparisons[:, None])
        a = np.where(np.abs(self.skewness) < 3e-9, np.nan, self.skewness / 3)
        number = np.maximum(self.number, 1)
        root = np.sqrt(number)
        inside = 1 + 3 * a * (quantile / root - self.skewness / (6 * number))
        bent = root / a * (np.cbrt(inside) - 1)
        return np.asarray(self.ratio - self.error * np.where(np.isnan(a), quantile, bent))


def ratio_bounds(lead: Floats, variance: Floats) -> RatioBounds:
    """Mean lead over mean variance with what its interval needs; lead: (R, H, units).

    Which units a hypothesis has does not differ between runs; a unit without variance is left out.
    """
    known = np.isfinite(lead[0]) & np.isfinite(variance)
    number = known.sum(axis=1)
    count = np.maximum(number, 1)
    below = np.where(known, variance, 0.0)
    bottom = below.sum(axis=1) / count
    bottom = np.where(bottom > 0, bottom, np.nan)
    top = np.where(known, lead, 0.0)
    ratio = top.sum(axis=2) / count / bottom
    apart = np.where(known, top - ratio[:, :, None] * below, 0.0) / bottom[:, None]
    squares, cubes = (apart**2).sum(axis=2), (apart**3).sum(axis=2)
    usable = squares > 0
    crude = cubes / count / np.where(usable, squares / count, 1.0) ** 1.5
    adjusted = crude * np.sqrt(count * np.maximum(count - 1, 0)) / np.maximum(count - 2, 1)
    return RatioBounds(
        ratio=np.asarray(ratio),
        error=np.sqrt(squares / np.maximum(count - 1, 1) / count),
        skewness=np.where(usable & (count > 2), adjusted, 0.0),
        number=number,
    )
