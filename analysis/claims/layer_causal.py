"""Whether layer-causal descent is nearer to ICL than plain descent that moves as much (2311.07772).

Likeness rises with the size of an update alone, and the two ways of descent move layers unequally
even where they move as much on average. So each is run at several doses, and compared in each layer
where both have moved its output by as much.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.claims.finding import Finding, not_assessable
from analysis.inference import UNDEFINED, Interval, smallest_flip_p
from analysis.similarity.records import Floats
from analysis.similarity.resampling import (
    LEVELS,
    Source,
    over_layers,
    resampled_means,
    two_way_interval,
)

METHODS = ("gd", "lcgd")
"""The first axis of the arrays: plain descent, then layer-causal descent."""
LEAST_DOSES = 2
LEAST_SHARED = 0.5
"""Of the (set, query, layer) at least this share must have been moved as much by both."""


class Gain(NamedTuple):
    """Layer-causal minus plain likeness at equal output change, and how much of it is known.

    gain: (set, query, layer); NaN where the two have no output change in common. low, high: the
    relative output change from which and up to which they were compared. defined: where both have
    a likeness at two doses or more (scores of a first layer may not change at all).
    """

    gain: Floats
    low: Floats
    high: Floats
    defined: NDArray[np.bool_]

    @property
    def shared(self) -> float:
        """Share of the (set, query, layer) that are defined which can be compared; 0 of none."""
        return float(np.isfinite(self.gain).sum() / max(1, self.defined.sum()))

    @property
    def layers(self) -> int:
        """How many layers can be compared, in any query."""
        return int(np.isfinite(self.gain).any(axis=(0, 1)).sum())


class Judged(NamedTuple):
    """One measure: the gain with a 95 % interval, the upper bound where several measures are
    judged at once, and the one-sided p that the gain is not above 0."""

    effect: Interval
    high_of_all: float
    p: float


def layer_causal_finding(
    likeness: Mapping[str, Floats], norm: Floats, *, rng: Source, least_shared: float = LEAST_SHARED
) -> Finding:
    """Layer-causal descent is nearer to ICL than plain descent at equal output change by layer.

    `likeness`: by measure, arrays (method, dose, set, query, layer) of plain and layer-causal
    descent against ICL; `norm`: the relative output change |h_FT - h_ZSL| / |h_ZSL| of the same
    runs. NaN where a dose diverged. The effect is the mean over layers of `gain_at_equal_norm`;
    queries and sets are resampled. With several measures all must gain: effect and p are those of
    the one that gains least, and the claim is contradicted where any of them loses (its bound that
    of all measures at once). Not assessable where less than half can be compared. Source:
    2311.07772, section 4.
    """
    gains = {key: gain_at_equal_norm(values, norm) for key, values in likeness.items()}
    worst = min(gains.values(), key=lambda one: one.shared)
    if not worst.shared >= least_shared:
        return not_assessable(
            "layer-causal and plain descent moved outputs by as much in "
            f"{100 * worst.shared:.0f} % of sets, queries and layers only, at least "
            f"{100 * least_shared:.0f} % are needed: their doses hardly overlap"
        )
    found = {key: judged(one.gain, rng=rng, measures=len(gains)) for key, one in gains.items()}
    effect = Interval(
        min(one.effect.estimate for one in found.values()),
        min(one.effect.low for one in found.values()),
        min(one.high_of_all for one in found.values()),
    )
    figures = "; ".join(
        f"{key} {one.effect.estimate:.3f} [{one.effect.low:.3f}, {one.effect.high:.3f}]"
        for key, one in found.items()
    )
    return Finding(
        effect, max(one.p for one in found.values()), figures=f"{figures}; {compared(gains)}"
    )


def compared(gains: Mapping[str, Gain]) -> str:
    """Where the two were compared, in words."""
    worst = min(gains.values(), key=lambda one: one.shared)
    low, high = (float(np.nanmean(part)) for part in (worst.low, worst.high))
    return (
        f"compared from an output change of {low:.3g} to {high:.3g} of the output in "
        f"{worst.layers} of {worst.gain.shape[-1]} layers, {100 * worst.shared:.0f} % of sets, "
        "queries and layers"
    )


def judged(gain: Floats, *, rng: Source, measures: int = 1) -> Judged:
    """The mean of gains (set, query, layer), layers first; whole queries and sets are resampled."""
    change = over_layers(gain)
    effect = two_way_interval(change, rng=rng)
    if not np.isfinite(effect.low):
        return Judged(UNDEFINED, np.nan, np.nan)
    draws = resampled_means(change, rng=rng)
    drawn = draws[np.isfinite(draws)]
    p = float((1 + (drawn <= 0).sum()) / (1 + len(drawn)))
    queries = int(np.isfinite(change).any(axis=0).sum())
    top = float(np.percentile(drawn, 100 - (100 - LEVELS[1]) / measures))
    return Judged(effect, max(top, effect.high), max(p, smallest_flip_p(queries)))


def gain_at_equal_norm(likeness: Floats, norm: Floats) -> Gain:
    """Layer-causal minus plain likeness at equal output change, for each (set, query, layer).

    likeness, norm: (2, dose, set, query, layer), plain descent first. Each method's likeness is
    taken to be linear between its own doses in the logarithm of the output change, and the
    difference is averaged over the logarithms that both reach; nothing is extrapolated. A dose
    whose likeness or norm is undefined is left out. NaN where either has fewer than 2 doses or
    their ranges do not touch.
    """
    likeness, norm = np.asarray(likeness, np.float64), np.asarray(norm, np.float64)
    if likeness.shape != norm.shape or likeness.ndim != 5 or len(likeness) != len(METHODS):
        raise ValueError(
            f"needed likeness and norm (2, dose, set, query, layer), came {likeness.shape} and "
            f"{norm.shape}"
        )
    size = np.log(np.where(norm > 0, norm, np.nan))
    gain, low, high = (np.full(likeness.shape[2:], np.nan) for _ in range(3))
    defined = np.zeros(gain.shape, dtype=np.bool_)
    for place in np.ndindex(*likeness.shape[2:]):
        curves = [curve(size[i, :, *place], likeness[i, :, *place]) for i in range(len(METHODS))]
        start, stop = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
        defined[place] = min(len(x) for x, _ in curves) >= LEAST_DOSES
        if defined[place] and start <= stop:
            gain[place] = mean_between(*curves[1], start, stop) - mean_between(
                *curves[0], start, stop
            )
            low[place], high[place] = np.exp(start), np.exp(stop)
    return Gain(gain, low, high, defined)


def curve(size: Floats, likeness: Floats) -> tuple[Floats, Floats]:
    """A dose curve in rising order of size, equal sizes averaged; one NaN point of no dose."""
    known = np.isfinite(size) & np.isfinite(likeness)
    if not known.any():
        return np.array([np.nan]), np.array([np.nan])
    x, place, count = np.unique(size[known], return_inverse=True, return_counts=True)
    return x, np.bincount(place, weights=likeness[known]) / count


def mean_between(x: Floats, y: Floats, start: float, stop: float) -> float:
    """Mean of a curve that is linear between its points, from `start` to `stop`."""
    inner = x[(x > start) & (x < stop)]
    at = np.concatenate([[start], inner, [stop]])
    values = np.interp(at, x, y)
    return float(np.trapezoid(values, at) / (stop - start)) if stop > start else float(values[0])
