"""What the test of a claim found, and the verdict on it once all claims are corrected together."""

import math
from typing import NamedTuple

from analysis.inference import ALPHA, UNDEFINED, Interval

SUPPORTED, CONTRADICTED = "supported", "contradicted"
NOT_DISTINGUISHABLE = "not distinguishable from the control"
NOT_ASSESSABLE = "not assessable"
VERDICTS = (SUPPORTED, CONTRADICTED, NOT_DISTINGUISHABLE, NOT_ASSESSABLE)


class Finding(NamedTuple):
    """One claim's test, before correction over claims.

    effect: what the claim says is above 0 (or inside its bounds), already less its control. p:
    one-sided and uncorrected, that it is not; NaN where the claim is not assessable, and `reason`
    says why. margin: the smallest effect worth a claim; where the interval's upper bound is below
    it the claim is contradicted. beats: whether the effect exceeds the controls that have no p of
    their own, such as two untrained twins. refutes: whether an effect below the margin contradicts
    the claim; False where the control that it is less could not differ much if the claim held.
    figures: effect and controls in words.
    """

    effect: Interval = UNDEFINED
    p: float = math.nan
    margin: float = 0.0
    figures: str = ""
    reason: str = ""
    beats: bool = True
    refutes: bool = True


def not_assessable(reason: str, *, figures: str = "") -> Finding:
    """A finding without a p; the reason begins in lower case and has no full stop."""
    return Finding(reason=reason, figures=figures)


def verdict_of(found: Finding, p_corrected: float) -> str:
    """The verdict on a claim, of `VERDICTS`.

    Supported where the corrected p is at most .05, the interval is above 0 and every control is
    beaten; contradicted where that p is larger, the interval's upper bound is below the margin and
    this refutes the claim.
    """
    if found.reason or math.isnan(p_corrected):
        return NOT_ASSESSABLE
    if p_corrected <= ALPHA and found.effect.low > 0 and found.beats:
        return SUPPORTED
    if p_corrected > ALPHA and found.effect.high < found.margin and found.refutes:
        return CONTRADICTED
    return NOT_DISTINGUISHABLE
