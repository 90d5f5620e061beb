"""Families of hypotheses against each other: which of them does a row need?"""

from typing import NamedTuple

import numpy as np

from analysis.assembly import RIVAL_FAMILIES, S_INVERSE, Assembly
from analysis.bootstrap import Intervals, ratio_intervals
from analysis.design import Floats
from analysis.flips import corrected_p, max_t_null, t_statistic
from analysis.folds import Folded, held_out_error

FAMILY_ORDER = (S_INVERSE, *RIVAL_FAMILIES)


class FamilyTest(NamedTuple):
    """Each family added to all the others; arrays are (R, families).

    families: names, in order. t, p_corrected: mean over standard error over contexts of the
    held-out log ratio, and its p by sign flips, maximum over all rows and families.
    unique_over_explained: what only the family explains over all that is explained, held out.
    alone: share of query-centred variance that the family explains by itself, held out; may be
    negative.
    """

    families: tuple[str, ...]
    t: Floats
    p_corrected: Floats
    unique_over_explained: Intervals
    alone: Floats


def family_tests(data: Folded, columns: Assembly, signs: Floats, counts: Floats) -> FamilyTest:
    """Test every family against all the other families together."""
    whole = held_out_error(data, columns.family(*FAMILY_ORDER))
    moments = data.moments
    ratios, uniques, alone = [], [], []
    total = moments.total.sum(axis=0)
    for family in FAMILY_ORDER:
        others = columns.family(*(name for name in FAMILY_ORDER if name != family))
        without = held_out_error(data, others)
        ratios.append(np.log(without) - np.log(whole))
        uniques.append(ratio_intervals(without - whole, moments.total - whole, counts))
        single = held_out_error(data, columns.families[family])
        alone.append(1.0 - single.sum(axis=0) / total)
    stacked = np.stack(ratios, axis=-1)
    statistic = t_statistic(stacked)
    return FamilyTest(
        FAMILY_ORDER,
        statistic,
        corrected_p(statistic, max_t_null(stacked, signs)),
        Intervals(*(np.stack(part, axis=-1) for part in zip(*uniques, strict=True))),
        np.stack(alone, axis=-1),
    )


def lead_over_rivals(
    data: Folded, columns: Assembly, hypothesis: int, counts: Floats
) -> tuple[Floats, Floats]:
    """By how much the hypothesis alone beats the nearest rival family with all its columns.

    Held-out error of the family less that of the hypothesis, as a share of query-centred
    variance. Returns the least lower bound (2.5th percentile, contexts resampled) over the
    families, (R,), and the index of that family in RIVAL_FAMILIES, (R,).
    """
    single = held_out_error(data, [hypothesis])
    total = data.moments.total.sum(axis=0)
    lower = []
    for family in RIVAL_FAMILIES:
        lead = held_out_error(data, columns.families[family]) - single
        lower.append(np.percentile(counts @ lead, 2.5, axis=0) / total)
    bounds = np.stack(lower)
    return bounds.min(axis=0), bounds.argmin(axis=0)
