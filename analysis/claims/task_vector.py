"""C14: what demonstrations do for the answer fits in one vector (2310.15916; 2310.15213)."""

from collections.abc import Mapping

import numpy as np

from analysis.claims.finding import Finding, not_assessable
from analysis.design import Floats
from analysis.inference import Interval, mean_interval, ratio_interval

LEAST_GAIN = 0.05
"""Right answers (as a share) or nats that ICL must gain over ZSL."""
LEAST_QUERIES = 10
HALF = 0.5
"""A vector that recovers less of the gain does not hold the demonstrations' effect."""
MARGIN = 0.2
"""A fifth of the gain beyond every control is the least that is worth a claim."""
FLIPS = 4000
_RULE_OF_THREE = 3


def vector_finding(
    zsl: Floats,
    icl: Floats,
    vector: Floats,
    controls: Mapping[str, Floats],
    *,
    unit: str = "right answers",
    rng: np.random.Generator,
) -> Finding:
    """The vector recovers a larger share of ICL's gain over ZSL than every control does.

    Each run, one number a query (query,): 1 where its answer is right and 0 where not (a share of
    draws for a control of several), or the log-probability of the right one; the queries are none
    of those on which vector and layer were chosen. The effect is the share that the vector
    recovers minus that of the control that recovers most; its lower bound is the lowest, and p the
    largest, over all controls, so that each must be beaten (intersection-union); its upper bound
    holds whichever control is chosen (Bonferroni). p flips the signs of whole queries. `beats` says
    whether the vector recovers half of the gain: less is a part of the effect, not the effect. Not
    assessable without a control, of fewer than 10 queries, or where the gain is not above .05 or
    its interval not above 0.
    """
    gain = np.asarray(icl - zsl, dtype=np.float64)
    gained = mean_interval(gain)
    said = f"ICL's gain over ZSL is {gained.estimate:.3g} {unit} on {len(gain)} queries"
    if why := why_not(gained, len(gain), controls):
        return not_assessable(why, figures=said)
    differences = {name: np.asarray(vector - values) for name, values in controls.items()}
    shares = {name: share_of(values, gain) for name, values in differences.items()}
    best = min(shares, key=lambda name: shares[name].estimate)
    own, rival = share_of(vector - zsl, gain), share_of(controls[best] - zsl, gain)
    figures = (
        f"the vector recovers {own.estimate:.2f} [{own.low:.2f}, {own.high:.2f}] of it, "
        f"{best}, the control that recovers most, {rival.estimate:.2f}"
    )
    return Finding(
        effect=Interval(
            shares[best].estimate,
            min(one.low for one in shares.values()),
            share_of(differences[best], gain, comparisons=len(controls)).high,
        ),
        p=max(flip_p(values, rng=rng) for values in differences.values()),
        margin=MARGIN,
        figures=f"{said}; {figures}",
        beats=own.estimate >= HALF,
    )


def why_not(gained: Interval, queries: int, controls: Mapping[str, Floats]) -> str:
    """Why nothing can be said; empty where something can."""
    if not controls:
        return "no control was run"
    if queries < LEAST_QUERIES:
        return f"{queries} queries are too few: it takes {LEAST_QUERIES} to report on"
    if not gained.estimate > LEAST_GAIN:
        return f"ICL gains no more than {LEAST_GAIN} over ZSL, so that there is nothing to recover"
    if not gained.low > 0:
        return "ICL's gain over ZSL cannot be told from 0"
    return ""


def share_of(change: Floats, gain: Floats, *, comparisons: int = 1) -> Interval:
    """Mean change over mean gain, both one a query, with its interval (see `ratio_interval`).

    Where right answers change by the same in every query, so that nothing varies, the interval
    reaches as far as three more queries of as many would (the rule of three).
    """
    found = ratio_interval(change, gain, comparisons=comparisons)
    flags = np.isin(change, (-1, 0, 1)).all() and np.isin(gain, (-1, 0, 1)).all()
    if flags and found.low == found.high:
        room = _RULE_OF_THREE / len(gain) / float(gain.mean())
        return Interval(found.estimate, found.estimate - room, found.estimate + room)
    return found


def flip_p(values: Floats, *, rng: np.random.Generator) -> float:
    """One-sided p that the mean of one number a query is not above 0, by flipping their signs."""
    signs = rng.choice((-1.0, 1.0), (FLIPS, len(values)))
    as_high = signs @ values >= values.sum() - 1e-9
    return float((1 + as_high.sum()) / (1 + FLIPS))
