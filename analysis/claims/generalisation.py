"""Whether ICL and FT answer alike what facts imply, once both recall the facts (2505.00661)."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from analysis.claims.finding import Finding, not_assessable
from analysis.design import Floats
from analysis.inference import ALPHA, Interval, proportion_interval

MARGIN = 0.1
"""Shares of right answers that differ by less count as alike."""
LEAST_RECALL = 0.8
CHANCE = 0.25
"""Share right of guessing among four candidates."""
RECALLED: Mapping[str, str] = MappingProxyType({"relation": "relations", "premise": "premises"})
INFERRED: Mapping[str, str] = MappingProxyType({"reversal": "reversals", "syllogism": "syllogisms"})
"""Kinds of questions, and what they are called: answers that were stated, and that follow."""


class Alike(NamedTuple):
    """Share right in ICL minus share right in FT of the same facts, and a test of alikeness.

    wide: the difference with an interval that holds for both kinds of questions at once
    (Bonferroni). p: that the shares differ by the margin or more (two one-sided tests, the larger
    p).
    """

    difference: Interval
    wide: Interval
    p: float


def generalisation_finding(
    icl: Mapping[str, Floats],
    ft: Mapping[str, Floats],
    *,
    margin: float = MARGIN,
    sets: int = 1,
) -> Finding:
    """ICL and FT are equally often right on reversals, and on syllogisms, to within `margin`.

    `icl`, `ft`: by kind of question ("relation", "premise", "reversal", "syllogism"), 1 where the
    answer was right and 0 where not, the same questions in the same order; "reversal" and
    "syllogism" hold one question a fact. The effect is the margin minus the size of the
    difference, of the kind that differs more; p the larger of both kinds', so that both must be
    alike (intersection-union). Contradicted where the difference of a kind is beyond the margin,
    the upper bound being that of both kinds at once. `beats`: of each kind one run at least is
    above guessing, since runs that guess are alike whatever they learnt. The unit is a fact, and
    of several `sets` of as many facts each, in their order, the set too (`held_over_sets`). Not
    assessable where either run recalls less than .8 of either kind of stated facts. Source:
    2505.00661.
    """
    recall = {
        run: min(float(np.mean(right[kind])) for kind in RECALLED)
        for run, right in (("ICL", icl), ("FT", ft))
    }
    figures = said_of(icl, ft)
    if not min(recall.values()) >= LEAST_RECALL:
        return not_assessable(
            f"of relations and premises, whichever is recalled less, ICL recalls "
            f"{recall['ICL']:.2f} and FT recalls {recall['FT']:.2f}: both must recall "
            f"{LEAST_RECALL:g} before what follows from them is asked",
            figures=figures,
        )
    tests = [alike(icl[kind], ft[kind], margin=margin, sets=sets) for kind in INFERRED]
    beats = all(above_chance(icl[kind]) or above_chance(ft[kind]) for kind in INFERRED)
    return both_alike(tests, margin=margin)._replace(figures=figures, beats=beats)


def above_chance(right: Floats) -> bool:
    """Whether the exact interval of a share right is above guessing."""
    return proportion_interval(int(np.sum(right)), len(right)).low > CHANCE


def both_alike(tests: Sequence[Alike], *, margin: float = MARGIN) -> Finding:
    """Every kind of question alike: effect and p of the one that is least so."""
    inner = [inside(one.difference, margin) for one in tests]
    outer = [inside(one.wide, margin) for one in tests]
    effect = Interval(
        min(one.estimate for one in inner),
        min(one.low for one in inner),
        min(one.high for one in outer),
    )
    return Finding(effect, max(one.p for one in tests))


def inside(difference: Interval, margin: float) -> Interval:
    """By how much the size of a difference stays inside the margin."""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    nearest = 0.0 if difference.low <= 0 <= difference.high else low
    return Interval(margin - abs(difference.estimate), margin - high, margin - nearest)


def alike(icl: Floats, ft: Floats, *, margin: float = MARGIN, sets: int = 1) -> Alike:
    """Difference of two shares of the same facts with its 95 % interval, and whether it is small.

    Score test and interval of Tango (1998, Statistics in Medicine 17) for paired shares: they hold
    where no fact is answered differently too. Refuses other than 0 and 1, or unequal numbers.
    `sets`: see `held_over_sets`.
    """
    icl, ft = np.asarray(icl, dtype=np.float64), np.asarray(ft, dtype=np.float64)
    if icl.shape != ft.shape or not len(icl) or not np.isin(np.r_[icl, ft], (0, 1)).all():
        raise ValueError(
            f"needed as many answers, each 0 or 1, in both runs, came {icl.shape} and {ft.shape}"
        )
    pairs = len(icl)
    gained, lost = int(((icl == 1) & (ft == 0)).sum()), int(((icl == 0) & (ft == 1)).sum())
    too_low = stats.norm.sf(score(gained, lost, pairs, -margin))
    too_high = stats.norm.cdf(score(gained, lost, pairs, margin))
    found = Alike(
        paired_interval(gained, lost, pairs),
        paired_interval(gained, lost, pairs, comparisons=len(INFERRED)),
        float(max(too_low, too_high)),
    )
    if sets < 2:
        return found
    return held_over_sets(found, (icl - ft).reshape(sets, -1).mean(axis=1), margin)


def held_over_sets(found: Alike, differences: Floats, margin: float) -> Alike:
    """The same where sets of facts differ: the facts of a set share a prompt and a fine-tuning.

    differences: of shares right, one a set. Each bound is the wider of the facts' and of Student's
    t over sets, p the larger.
    """
    mean, freedom = float(np.mean(differences)), len(differences) - 1
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    if error == 0:
        return found
    too_low = stats.t.sf((mean + margin) / error, freedom)
    too_high = stats.t.cdf((mean - margin) / error, freedom)

    def wider(one: Interval, comparisons: int) -> Interval:
        reach = float(stats.t.ppf(1 - ALPHA / 2 / comparisons, freedom)) * error
        low, high = min(one.low, mean - reach), max(one.high, mean + reach)
        return Interval(one.estimate, max(low, -1.0), min(high, 1.0))

    return Alike(
        wider(found.difference, 1),
        wider(found.wide, len(INFERRED)),
        float(max(found.p, too_low, too_high)),
    )


def score(gained: int, lost: int, pairs: int, shift: float) -> float:
    """Tango's statistic that the shares differ by `shift`: standard normal if they do.

    `gained`: facts that only the first run answers rightly, `lost`: only the second.
    """
    a = 2.0 * pairs
    b = -gained - lost + (2 * pairs - gained + lost) * shift
    c = -lost * shift * (1 - shift)
    only_second = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = pairs * (2 * only_second + shift * (1 - shift))
    excess = gained - lost - pairs * shift
    if variance <= 0:
        return math.copysign(math.inf, excess) if abs(excess) > 1e-12 else 0.0
    return excess / math.sqrt(variance)


def paired_interval(gained: int, lost: int, pairs: int, *, comparisons: int = 1) -> Interval:
    """Difference of paired shares with its two-sided 95 % interval, within [-1, 1].

    comparisons: how many intervals hold together at 95 % (Bonferroni).
    """
    estimate = (gained - lost) / pairs
    quantile = float(stats.norm.ppf(1 - ALPHA / 2 / comparisons))

    def bound(end: float, sign: int) -> float:
        def beyond(shift: float) -> float:
            return score(gained, lost, pairs, shift) - sign * quantile

        near, far = estimate, end * (1 - 1e-9)
        if abs(near) >= abs(far) and near * far > 0:
            return end
        return float(optimize.brentq(beyond, near, far))

    return Interval(estimate, bound(-1.0, 1), bound(1.0, -1))


def said_of(icl: Mapping[str, Floats], ft: Mapping[str, Floats]) -> str:
    """Shares right of each kind of question, ICL and FT."""
    return (
        "; ".join(
            f"{name} {np.mean(icl[kind]):.2f} in ICL, {np.mean(ft[kind]):.2f} in FT"
            for kind, name in {**RECALLED, **INFERRED}.items()
        )
        + f" (guessing {CHANCE:g})"
    )
