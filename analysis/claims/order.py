"""Whether ICL minds the order of demonstrations as much as fine-tuning on one after the other."""

import math

import numpy as np

from analysis.claims.crossed_mean import MeanOf, mean_over_both
from analysis.claims.finding import Finding, not_assessable
from analysis.inference import ALPHA, Interval, smallest_flip_p
from analysis.similarity.records import Floats

BOUND = 2.0
"""Sensitivities whose ratio is between 1/2 and 2 count as equal."""
LEAST_CHANGE = 0.1
"""The least |p - p_ZSL|, summed over words: a total variation of .05."""
LEAST_SETS = 5
LEAST_QUERIES = 8
"""With fewer, no p survives the correction over nine claims: 2^-7 times 9 is above .05."""


def order_finding(
    icl: Floats,
    ft: Floats,
    *,
    icl_change: Floats,
    ft_change: Floats,
    full_batch: Floats | None = None,
    bound: float = BOUND,
    least_change: float = LEAST_CHANGE,
    least_sets: int = LEAST_SETS,
    least_queries: int = LEAST_QUERIES,
) -> Finding:
    """ICL is as order-sensitive as sequential gradient descent, to within the factor `bound`.

    icl, ft: order sensitivity over the change from ZSL (set, query), see `order_sensitivity`;
    icl_change, ft_change: that change, |p - p_ZSL| summed over words; full_batch: the sensitivity
    of one step on all demonstrations at once, 0 by construction and only shown. The effect is
    log(bound) - |mean of log(icl / ft)|; its lower bound is that of the 90 % interval and p the
    larger of both one-sided tests', so that the claim is supported where the whole interval is
    within the bounds (TOST); its upper bound, of the 95 % interval, is below 0 where the whole
    interval is outside. Sets and queries are random. Not assessable where ICL or FT hardly change
    the answer (the ratio would be of two roundings), or with few sets or queries. Source:
    2310.08540, section 4.
    """
    # A set whose fine-tuning diverged, or a query that one run leaves as it is, has no ratio.
    usable = (icl > 0) & (ft > 0)
    rows = usable.any(axis=1)
    columns = usable[rows].all(axis=0) if rows.any() else np.zeros(icl.shape[1], bool)
    for name, change in (("ICL", icl_change), ("FT", ft_change)):
        size = float(np.nanmean(change)) if np.isfinite(change).any() else math.nan
        if not size >= least_change:
            return not_assessable(
                f"{name} changes next-token probabilities by {size / 2:.2g} in total variation, "
                f"below {least_change / 2:g}: what is small by itself has no sensitivity to order"
            )
    if rows.sum() < least_sets:
        return not_assessable(
            f"order sensitivity is known of {int(rows.sum())} sets of demonstrations, at least "
            f"{least_sets} are needed to speak of others (--sets 5)"
        )
    if columns.sum() < least_queries:
        return not_assessable(
            f"order sensitivity is known of {int(columns.sum())} queries, at least {least_queries} "
            "are needed for the smallest p to survive the correction over claims"
        )
    ratio = np.log(icl[rows][:, columns]) - np.log(ft[rows][:, columns])
    mean = mean_over_both(ratio)
    p = max(mean.above(-math.log(bound)), 1 - mean.above(math.log(bound)))
    p = max(p, smallest_flip_p(ratio.shape[1]))
    return Finding(inside(mean, math.log(bound)), p, figures=said(mean, full_batch))


def inside(mean: MeanOf, limit: float) -> Interval:
    """By how much the size of a mean stays within the limit; see `order_finding`."""
    inner = max(map(abs, mean.interval(1 - 2 * ALPHA)))
    low, high = mean.interval(1 - ALPHA)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(limit - abs(mean.estimate), limit - inner, limit - nearest)


def said(mean: MeanOf, full_batch: Floats | None) -> str:
    """The ratio with its 90 % interval, and what one step on all demonstrations shows."""
    ratio, low, high = (math.exp(one) for one in (mean.estimate, *mean.interval(1 - 2 * ALPHA)))
    text = f"ICL's sensitivity over FT's {ratio:.2f} [{low:.2f}, {high:.2f}] (90 %)"
    if full_batch is None or not np.isfinite(full_batch).any():
        return text
    return f"{text}; of one step on all demonstrations {float(np.nanmean(full_batch)):.2g}"
