"""C7: what fine-tuning fixes, in-context learning fixes."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.claims.finding import Finding, not_assessable
from analysis.inference import Interval, smallest_flip_p
from analysis.number_text import interval_text
from analysis.similarity.records import Floats, Integers
from analysis.similarity.recovered import LEAST_FIXED, Flags
from analysis.similarity.resampling import LEVELS, Resamples

MARGIN = math.log(1.5)
"""Odds half as high again as the control's: from the chance line of .72 that is .79, while item
difficulty alone, shared by any two runs, has been seen to give .81."""
PSEUDO = 0.5
"""A count of 1/2 in each cell, spread over the strata, keeps resamples without a cell finite."""
TERCILES = (1 / 3, 2 / 3)


class Answers(NamedTuple):
    """Answers to each query, all (set, query); Flags say whether a run was right.

    gold: the right class. margin: log p(gold) minus that of the best other label under ZSL, nats.
    icl_other: ICL behind D', other demonstrations of the task.
    """

    gold: Integers
    margin: Floats
    zsl: Flags
    ft: Flags
    icl: Flags
    icl_other: Flags


class Odds(NamedTuple):
    """A common log odds ratio, and what it is in each resample."""

    estimate: float
    draws: Floats


def recovered_answers_finding(answers: Answers, *, rng: Resamples) -> Finding:
    """Among queries that ZSL got wrong, ICL is right on those that FT fixes, beyond ICL on D'.

    The effect is log OR(FT, ICL) - log OR(FT, ICL on D'), Mantel-Haenszel ratios common to the
    strata of gold label and third of the ZSL margin: what is easy for any run is in both. Sets and
    queries are resampled whole; p is the share of resamples that are not above 0, never below what
    flipping queries could reach. OR(FT, ICL) has to be above 1 too. What FT breaks is described.
    Not assessable where FT fixes fewer than 30, or the strata leave nothing to compare.
    Source: 2212.10559, section 4.3.
    """
    wrong, fixed = ~answers.zsl, ~answers.zsl & answers.ft
    count = int(fixed.sum())
    figures = f"of {count} answers that FT fixes ICL gives {int((fixed & answers.icl).sum())}, "
    figures += f"ICL on other demonstrations {int((fixed & answers.icl_other).sum())}"
    if count < LEAST_FIXED:
        return not_assessable(
            f"FT fixes {count} answers that ZSL got wrong, needed {LEAST_FIXED}", figures=figures
        )
    groups = strata(answers.gold, answers.margin, wrong)
    if not all(informative(answers.ft, one, groups) for one in (answers.icl, answers.icl_other)):
        return not_assessable(
            "no answers of one label and margin are given both rightly and wrongly by ICL, "
            "and by FT",
            figures=figures,
        )
    own = log_odds_ratio(answers.ft, answers.icl, groups, rng=rng)
    other = log_odds_ratio(answers.ft, answers.icl_other, groups, rng=rng)
    change = own.draws - other.draws
    p = float((1 + (change <= 0).sum()) / (1 + len(change)))
    return Finding(
        interval(own.estimate - other.estimate, change),
        max(p, smallest_flip_p(int(wrong.any(axis=0).sum()))),
        MARGIN,
        figures=f"{figures}; odds ratios {ratio_text(own)} and {ratio_text(other)}; "
        f"{broken_text(answers, rng=rng)}",
        beats=interval(own.estimate, own.draws).low > 0,
    )


def strata(gold: Integers, margin: Floats, some: Flags) -> Integers:
    """Group of each of `some` answers by right class and third of the margin; -1 of the others."""
    thirds = np.searchsorted(np.quantile(margin[some], TERCILES), margin, side="left")
    groups = np.full(gold.shape, -1, dtype=np.int64)
    groups[some] = np.unique((3 * gold + thirds)[some], return_inverse=True)[1]
    return groups


def informative(first: Flags, second: Flags, groups: Integers) -> bool:
    """Whether in some group each run is both right and wrong."""
    return any(
        0 < first[groups == group].mean() < 1 and 0 < second[groups == group].mean() < 1
        for group in range(groups.max() + 1)
    )


def log_odds_ratio(
    first: Flags, second: Flags, groups: Integers, *, rng: Resamples, pseudo: float = PSEUDO
) -> Odds:
    """How the odds that `second` is right depend on whether `first` is, within groups."""
    every = [first & second, first & ~second, ~first & second, ~first & ~second]
    cells = np.array([[(groups == g) & one for one in every] for g in range(groups.max() + 1)])
    queries = rng.queries
    draws = np.stack(
        [
            np.stack([((rng.sets @ one) * queries).sum(axis=1) for one in group], axis=-1)
            for group in cells.astype(np.float64)
        ],
        axis=1,
    )
    whole = mantel_haenszel(cells.sum(axis=(2, 3)).astype(np.float64), pseudo=pseudo)
    return Odds(float(whole), mantel_haenszel(draws, pseudo=pseudo))


def mantel_haenszel(counts: Floats, *, pseudo: float = 0.0) -> NDArray[np.float64]:
    """Common log odds ratio of counts (..., group, 4): both, first alone, second alone, neither."""
    a, b, c, d = np.moveaxis(counts + pseudo / counts.shape[-2], -1, 0)
    total = a + b + c + d
    known = np.where(total > 0, total, 1.0)
    together, apart = (a * d / known).sum(axis=-1), (b * c / known).sum(axis=-1)
    return np.asarray(np.log(together) - np.log(apart))


def interval(estimate: float, draws: Floats) -> Interval:
    """The estimate with the percentile interval of its draws."""
    low, high = np.percentile(draws, LEVELS)
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))


def ratio_text(odds: Odds) -> str:
    """An odds ratio with its interval."""
    return interval_text([math.exp(one) for one in interval(odds.estimate, odds.draws)])


def broken_text(answers: Answers, *, rng: Resamples) -> str:
    """The same of what FT breaks: right under ZSL, wrong after fine-tuning."""
    right, broken = answers.zsl, answers.zsl & ~answers.ft
    words = f"of {int(broken.sum())} answers that FT breaks ICL breaks"
    words = f"{words} {int((broken & ~answers.icl).sum())}"
    if not right.any():
        return words
    groups = strata(answers.gold, answers.margin, right)
    if not informative(answers.ft, answers.icl, groups):
        return words
    odds = log_odds_ratio(answers.ft, answers.icl, groups, rng=rng)
    return f"{words}, odds ratio {ratio_text(odds)}"
