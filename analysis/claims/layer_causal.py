"""Whether layer-causal descent is nearer to ICL than plain descent that moves as much (2311.07772).

Likeness rises with the size of an update alone, and the two ways of descent move layers unequally
even where they move as much on average. So each is run at several doses, and compared in each layer
where both have moved its output by as much.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.claims.crossed_mean import mean_over_both
from analysis.claims.finding import Finding, not_assessable
from analysis.inference import ALPHA, UNDEFINED, Interval, smallest_flip_p
from analysis.number_text import interval_text
from analysis.similarity.records import Floats
from analysis.similarity.resampling import (
    LEVELS,
    Resamples,
    Source,
    draw_resamples,
    over_layers,
    resampled_means,
    two_way_interval,
)

METHODS = ("gd", "lcgd")
"""The first axis of the arrays: plain descent, then layer-causal descent."""
LEAST_DOSES = 2
LEAST_SETS = 5
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
    judged at once, and the one-sided p that the gain is not above 0.

    Of few sets the bootstrap alone claims too often (9 % in simulation where sets differ and
    queries do not): the interval also holds that of the crossed design, and p is the larger.
    """

    effect: Interval
    high_of_all: float
    p: float


def layer_causal_finding(
    likeness: Mapping[str, Floats],
    norm: Floats,
    *,
    rng: Source,
    other: Mapping[str, Floats] = MappingProxyType({}),
    least_shared: float = LEAST_SHARED,
    least_sets: int = LEAST_SETS,
) -> Finding:
    """Layer-causal descent is nearer to ICL than plain descent at equal output change by layer.

    `likeness`: by measure, arrays (method, dose, set, query, layer) of plain and layer-causal
    descent against ICL; `norm`: the relative output change |h_FT - h_ZSL| / |h_ZSL| of the same
    runs. NaN where a dose diverged. `other`: the same likeness to ICL on other demonstrations,
    which is only said: a gain there is one that any demonstrations give. The effect is the mean
    over layers of `gain_at_equal_norm`; queries and sets are resampled. With several measures all
    must gain: effect and p are those of the one that gains least, and the claim is contradicted
    where any of them loses (its bound that of all measures at once). Not assessable with few sets,
    or where less than half can be compared. Source: 2311.07772, section 4.
    """
    gains = {key: gain_at_equal_norm(values, norm) for key, values in likeness.items()}
    worst = min(gains.values(), key=lambda one: one.shared)
    if (sets := norm.shape[2]) < least_sets:
        return not_assessable(
            f"needed {least_sets} sets of demonstrations, came {sets} (--sets {least_sets})"
        )
    if not worst.shared >= least_shared:
        return not_assessable(
            "layer-causal and plain descent moved outputs by as much in "
            f"{100 * worst.shared:.0f} % of sets, queries and layers only, at least "
            f"{100 * least_shared:.0f} % are needed: their doses hardly overlap"
        )
    found = {key: judged(one.gain, rng=rng, measures=len(gains)) for key, one in gains.items()}
    there = {
        key: judged(gain_at_equal_norm(values, norm).gain, rng=rng) for key, values in other.items()
    }
    if undefined := [key for key, one in found.items() if np.isnan(one.p)]:
        return not_assessable(f"{undefined[0]} is known of fewer than 2 queries")
    effect = Interval(
        min(one.effect.estimate for one in found.values()),
        min(one.effect.low for one in found.values()),
        min(one.high_of_all for one in found.values()),
    )
    figures = "; ".join([*said_of(found, there), compared(worst)])
    return Finding(effect, max(one.p for one in found.values()), figures=figures)


def said_of(found: Mapping[str, Judged], there: Mapping[str, Judged]) -> list[str]:
    """Each measure's gain, and what it is to ICL on other demonstrations."""
    texts = {key: f"{key} {interval_text(one.effect)}" for key, one in found.items()}
    for key, one in there.items():
        texts[key] += f", to ICL on other demonstrations {interval_text(one.effect)}"
    return list(texts.values())


def compared(worst: Gain) -> str:
    """Where the two were compared, in words."""
    low, high = (float(np.nanmean(part)) for part in (worst.low, worst.high))
    return (
        f"compared from an output change of {low:.3g} to {high:.3g} of the output in "
        f"{worst.layers} of {worst.gain.shape[-1]} layers, {100 * worst.shared:.0f} % of sets, "
        "queries and layers"
    )


def judged(gain: Floats, *, rng: Source, measures: int = 1) -> Judged:
    """The mean of gains (set, query, layer), layers first; whole queries and sets are resampled."""
    change = over_layers(gain)
    rng = rng if isinstance(rng, Resamples) else draw_resamples(*change.shape, rng=rng)
    effect = two_way_interval(change, rng=rng)
    if not np.isfinite(effect.low):
        return Judged(UNDEFINED, np.nan, np.nan)
    draws = resampled_means(change, rng=rng)
    drawn = draws[np.isfinite(draws)]
    p = float((1 + (drawn <= 0).sum()) / (1 + len(drawn)))
    whole = change[:, np.isfinite(change).all(axis=0)]
    if whole.shape[1] < 2:
        return Judged(UNDEFINED, np.nan, np.nan)
    crossed = mean_over_both(whole)
    low, high = crossed.interval(1 - ALPHA)
    effect = Interval(effect.estimate, min(effect.low, low), max(effect.high, high))
    top = float(np.percentile(drawn, 100 - (100 - LEVELS[1]) / measures))
    top = max(effect.high, top, crossed.interval(1 - ALPHA / measures)[1])
    return Judged(effect, top, max(p, crossed.above(0.0), smallest_flip_p(whole.shape[1])))


def gain_at_equal_norm(likeness: Floats, norm: Floats) -> Gain:
    """Layer-causal minus plain likeness at equal output change, for each (set, query, layer).

    likeness, norm: (2, dose, set, query, layer), plain descent first. Each method's likeness is
    taken to be linear between its own doses in the logarithm of the output change, and the
    difference is averaged over the logarithms that both reach; nothing is extrapolated. A dose
    whose likeness or norm is undefined is left out. NaN where either has fewer than 2 doses or
    their ranges do not overlap.
    """
    likeness, norm = np.asarray(likeness, np.float64), np.asarray(norm, np.float64)
    if likeness.shape != norm.shape or likeness.ndim != 5 or len(likeness) != len(METHODS):
        raise ValueError(
            f"needed likeness and norm (2, dose, set, query, layer), came {likeness.shape} and "
            f"{norm.shape}"
        )
    size = np.log(np.where(norm > 0, norm, np.nan))
    curves = [curve(*one) for one in zip(size, likeness, strict=True)]
    defined = np.logical_and(*(np.isfinite(x).sum(axis=0) >= LEAST_DOSES for x, _ in curves))
    start = np.maximum(*(x[0] for x, _ in curves))
    stop = np.minimum(*(np.fmax.reduce(x, axis=0) for x, _ in curves))
    both = defined & (start < stop)
    start, stop = (np.where(both, part, np.nan) for part in (start, stop))
    plain, causal = (mean_between(x, y, start, stop) for x, y in curves)
    return Gain(causal - plain, np.exp(start), np.exp(stop), defined)


def curve(size: Floats, likeness: Floats) -> tuple[Floats, Floats]:
    """Sizes and likenesses (dose, ...) in rising order of size, undefined doses last as NaN."""
    known = np.isfinite(size) & np.isfinite(likeness)
    x = np.where(known, size, np.nan)
    order = np.argsort(x, axis=0)
    return np.take_along_axis(x, order, 0), np.take_along_axis(likeness, order, 0)


def mean_between(x: Floats, y: Floats, start: Floats, stop: Floats) -> Floats:
    """Mean from `start` to `stop` (...) of curves (point, ...), linear between rising points."""
    width = x[1:] - x[:-1]
    slope = (y[1:] - y[:-1]) / np.where(width > 0, width, np.nan)
    ends = [np.clip(part, start, stop) for part in (x[:-1], x[1:])]
    middle = y[:-1] + slope * ((ends[0] + ends[1]) / 2 - x[:-1])
    area = np.nansum(middle * (ends[1] - ends[0]), axis=0)
    return np.asarray(area / (stop - start))
