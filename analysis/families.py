"""Families of hypotheses against each other: which of them does a row need?"""

from typing import NamedTuple

import numpy as np

from analysis.assembly import RIVAL_FAMILIES, S_INVERSE, Assembly
from analysis.assessable import LEVEL
from analysis.bootstrap import Intervals, ratio_intervals
from analysis.design import Floats, Texts
from analysis.flips import corrected_p, max_t_null, t_statistic
from analysis.folds import Folded, held_out_error

FAMILY_ORDER = (S_INVERSE, *RIVAL_FAMILIES)
LEAST_ALONE = 0.01


class FamilyTest(NamedTuple):
    """Each family added to all the others; arrays are (R, families).

    families: names, in order. t, p_corrected: mean over standard error over contexts of the
    held-out log ratio, and its p by sign flips, maximum over all rows and families.
    unique_over_explained: what only the family explains over all that is explained, held out.
    alone: share of query-centred variance that the family explains by itself, held out; may be
    negative. alone_p: as p_corrected, of the family by itself against nothing.
    """

    families: tuple[str, ...]
    t: Floats
    p_corrected: Floats
    unique_over_explained: Intervals
    alone: Floats
    alone_t: Floats
    alone_p: Floats

    def nearest(self) -> Texts:
        """The family that alone explains most of each row, (R,); "" where none explains 1 %.

        A family counts where its p against nothing, corrected over rows and families, is at
        most .05.
        """
        share = np.where((self.alone_p <= LEVEL) & (self.alone > LEAST_ALONE), self.alone, -1.0)
        best = np.array(self.families)[share.argmax(axis=1)]
        return np.where(share.max(axis=1) > 0, best, "")


def family_tests(data: Folded, columns: Assembly, signs: Floats, counts: Floats) -> FamilyTest:
    """Test every family against all the other families together."""
    whole = held_out_error(data, columns.family(*FAMILY_ORDER))
    moments = data.moments
    ratios, lone_ratios, uniques, alone = [], [], [], []
    total = moments.total.sum(axis=0)
    for family in FAMILY_ORDER:
        others = columns.family(*(name for name in FAMILY_ORDER if name != family))
        without = held_out_error(data, others)
        ratios.append(np.log(without) - np.log(whole))
        uniques.append(ratio_intervals(without - whole, moments.total - whole, counts))
        single = held_out_error(data, columns.families[family])
        lone_ratios.append(np.log(moments.total) - np.log(single))
        alone.append(1.0 - single.sum(axis=0) / total)
    against_others = _tested(np.stack(ratios, axis=-1), signs)
    against_nothing = _tested(np.stack(lone_ratios, axis=-1), signs)
    return FamilyTest(
        FAMILY_ORDER,
        *against_others,
        Intervals(*(np.stack(part, axis=-1) for part in zip(*uniques, strict=True))),
        np.stack(alone, axis=-1),
        *against_nothing,
    )


def _tested(ratios: Floats, signs: Floats) -> tuple[Floats, Floats]:
    statistic = t_statistic(ratios)
    return statistic, corrected_p(statistic, max_t_null(ratios, signs))


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
