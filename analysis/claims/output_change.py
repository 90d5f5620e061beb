"""C10: in-context learning and fine-tuning change the output distribution alike."""

from typing import NamedTuple

import numpy as np

from analysis.claims.few_sets import of_few_sets
from analysis.claims.finding import Finding, not_assessable
from analysis.inference import UNDEFINED, Interval
from analysis.number_text import interval_text, number_text
from analysis.similarity.records import Floats
from analysis.similarity.resampling import (
    LEVELS,
    Resamples,
    paired,
    resampled_ratios,
    two_way_interval,
    two_way_ratio,
)

MARGIN = 0.1
"""A tenth of the way from FT on other demonstrations to the same demonstrations in another order:
nearer to the floor than that, which demonstrations are learnt hardly matters."""
LEAST_CHANGE = 0.05
ROUNDING = 1e-6
"""Total variations of float32 distributions that differ by less are the same."""


class Variation(NamedTuple):
    """Total variation of next-token distributions, each (set, query), in [0, 1].

    matched: ICL and FT on D; mismatched: ICL and FT on D', at equal update norm; order: ICL and
    ICL with D in another order; change: ICL and ZSL.
    """

    matched: Floats
    mismatched: Floats
    order: Floats
    change: Floats


def output_change_finding(variation: Variation, *, rng: Resamples) -> Finding:
    """Where 1 - TV(ICL, FT) / TV(ICL, ZSL) lies between FT on D' (0) and another order of D (1).

    The effect is that position; p, that D is no nearer to the ceiling than D' is. Likeness has to
    be above 0 too: below, FT's outputs are farther from ICL's than if nothing had been learnt.
    Likeness is a ratio of means over sets and queries: where demonstrations leave a query alone
    its own ratio is anything, and a mean of such ratios is that of its noisiest query.
    Not assessable where mean TV(ICL, ZSL) is below .05, where FT is as far from ICL as ZSL is on
    every query (it has learnt nothing), or the ceiling is not above the floor.
    Source: 2310.08540, section 4.
    """
    known = Variation(*whole(variation))
    if not known.matched.size or not np.isfinite(known.matched).any():
        return not_assessable("no query has every run's distribution")
    change = two_way_interval(known.change, rng=rng)
    if not change.estimate >= LEAST_CHANGE:
        return not_assessable(
            f"ICL hardly changes the output: mean total variation to ZSL is "
            f"{number_text(change.estimate)}, needed {LEAST_CHANGE:g}"
        )
    if np.nanmax(np.abs(known.matched - known.change)) < ROUNDING:
        return not_assessable("FT leaves every output as it is without demonstrations")
    likeness, floor, ceiling = (alike(one, known.change, rng=rng) for one in known[:3])
    figures = (
        f"1 - TV(ICL, FT) / TV(ICL, ZSL) {interval_text(likeness)}, with FT on other "
        f"demonstrations {interval_text(floor)}, with ICL in another order "
        f"{interval_text(ceiling)}"
    )
    if not two_way_interval(known.mismatched - known.order, rng=rng).low > 0:
        return not_assessable(
            "ICL in another order is no more like ICL than FT on other demonstrations is, so that "
            "there is no room between floor and ceiling",
            figures=figures,
        )
    test = paired(-known.matched[..., None], -known.mismatched[..., None], rng=rng)
    where, gained = position(known, rng=rng), known.mismatched - known.matched
    room = known.mismatched - known.order
    # A ratio varies, to first order, like its numerator less itself times its denominator.
    linear = where.estimate + (gained - where.estimate * room) / np.nanmean(room)
    return Finding(
        of_few_sets(where, test.p, linear).interval,
        of_few_sets(where, test.p, gained).p,
        MARGIN,
        figures=figures,
        beats=likeness.low > 0,
    )


def whole(variation: Variation) -> list[Floats]:
    """The same with every value undefined of a set and query that lack one."""
    values = [np.asarray(one, dtype=np.float64) for one in variation]
    if len({one.shape for one in values}) != 1:
        raise ValueError(
            "needed four arrays (set, query) of one shape, came "
            + ", ".join(str(one.shape) for one in values)
        )
    known = np.isfinite(values).all(axis=0)
    return [np.where(known, one, np.nan) for one in values]


def alike(distance: Floats, change: Floats, *, rng: Resamples) -> Interval:
    """1 - sum of distances / sum of changes with its interval; at most 1."""
    ratio = two_way_ratio(np.nan_to_num(distance), np.nan_to_num(change), rng=rng)
    return Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low)


def position(known: Variation, *, rng: Resamples) -> Interval:
    """How far matched is on the way from mismatched to another order, with its interval.

    Resamples without any room between the two are left out.
    """
    gained = np.nan_to_num(known.mismatched - known.matched)
    room = np.nan_to_num(known.mismatched - known.order)
    if not room.sum() > 0:
        return UNDEFINED
    low, high = np.nanpercentile(resampled_ratios(gained, room, rng=rng), LEVELS)
    return Interval(float(gained.sum() / room.sum()), float(low), float(high))
