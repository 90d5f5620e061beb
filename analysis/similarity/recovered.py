"""Rec2FTP: of what fine-tuning gets right and the model alone got wrong, how much ICL does."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.inference import Interval, proportion_interval
from analysis.similarity.resampling import Source, two_way_ratio

Flags = NDArray[np.bool_]


class Recovered(NamedTuple):
    """Recall to fine-tuning predictions (2212.10559, section 4.3), as counts.

    numerator: queries that ZSL got wrong and both FT and ICL right; denominator: that ZSL got wrong
    and FT right; value: their ratio with its exact interval, undefined of 0. chance: what it would
    be if ICL did not care which queries FT fixes: queries that ZSL got wrong and ICL right, over
    those that ZSL got wrong. broken: queries that ZSL got right and FT wrong; broken_too: ICL too.
    """

    numerator: int
    denominator: int
    value: Interval
    chance: Interval
    broken: int
    broken_too: int


def recovered(zsl: Flags, icl: Flags, ft: Flags) -> Recovered:
    """Counts over queries; each argument says which queries that run answered rightly, (query,)."""
    if not len(zsl) == len(icl) == len(ft):
        raise ValueError(
            f"needed one answer a query in every run; came {len(zsl)}, {len(icl)} and {len(ft)}"
        )
    wrong = ~zsl
    numerator, denominator = int((wrong & ft & icl).sum()), int((wrong & ft).sum())
    return Recovered(
        numerator=numerator,
        denominator=denominator,
        value=proportion_interval(numerator, denominator),
        chance=proportion_interval(int((wrong & icl).sum()), int(wrong.sum())),
        broken=int((zsl & ~ft).sum()),
        broken_too=int((zsl & ~ft & ~icl).sum()),
    )


LEAST_FIXED = 30
"""Below so many queries that fine-tuning fixes, the ratio is not assessable."""


def recovered_over_sets(zsl: Flags, icl: Flags, ft: Flags, *, rng: Source) -> Recovered:
    """The same of several sets, (set, query): counts are added, sets and queries resampled.

    With one set the intervals are exact ones, see `recovered`.
    """
    pooled = recovered(zsl.ravel(), icl.ravel(), ft.ravel())
    if len(zsl) == 1:
        return pooled
    wrong, fixed = ~zsl, ~zsl & ft
    return pooled._replace(
        value=two_way_ratio((fixed & icl).astype(float), fixed.astype(float), rng=rng),
        chance=two_way_ratio((wrong & icl).astype(float), wrong.astype(float), rng=rng),
    )


def share_right(right: Flags, *, rng: Source) -> Interval:
    """The share of right answers (set, query), with its interval.

    Exact of one set, and where every answer is right (or none is), with queries as the trials.
    """
    if len(right) == 1 or right.all() or not right.any():
        queries = right.shape[1]
        count = round(float(right.mean()) * queries)
        return proportion_interval(count, queries)
    return two_way_ratio(right.astype(float), np.ones(right.shape), rng=rng)
