"""What a comparison says: is a measure higher under the same demonstrations than under others?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from analysis.inference import ALPHA, Interval

PRIMARY = "SimAOU (orthogonal)"
MORE, NO_MORE, NOT_ASSESSABLE = "more alike", "no more alike", "not assessable"
NOT_BEYOND_TWINS = "more alike, not beyond every twin"


class Judged(NamedTuple):
    """One measure that is evidence. `difference`: matched minus mismatched; `mismatch`: which.

    `beyond` holds, for each twin, the model's difference minus the twin's.
    """

    key: str
    matched: Interval
    mismatched: Interval
    difference: Interval
    p_corrected: float
    mismatch: str
    beyond: tuple[Interval, ...]


class Verdict(NamedTuple):
    """`label` of the primary measure, and one sentence on all of them."""

    label: str
    sentence: str


def says(one: Judged) -> str:
    """The word on one measure: a claim needs a difference above 0, corrected over all measures,
    and one that exceeds every twin's."""
    if math.isnan(one.p_corrected):
        return NOT_ASSESSABLE
    if one.p_corrected > ALPHA or one.difference.low <= 0:
        return NO_MORE
    return MORE if all(twin.low > 0 for twin in one.beyond) else NOT_BEYOND_TWINS


def rank_p(own: float, twins: Sequence[float]) -> float:
    """p that the model's difference is one of its twins': (1 + those at least as large) / (K + 1).

    With K twins it cannot be below 1 / (K + 1): two or three describe, 19 test at .05. Undefined
    without twins, or where the model's difference is.
    """
    if not twins or math.isnan(own):
        return math.nan
    return (1 + sum(one >= own for one in twins)) / (len(twins) + 1)


def verdict_on(judged: Sequence[Judged], *, reason: str, mismatches: dict[str, str]) -> Verdict:
    """The verdict on a run; `reason` says why nothing could be judged, empty where it could.

    `mismatches`: how each mismatch is said in a sentence.
    """
    words = {one.key: says(one) for one in judged}
    if reason or not judged or all(word == NOT_ASSESSABLE for word in words.values()):
        why = reason or "no measure is defined on both sides"
        return Verdict(NOT_ASSESSABLE, f"Not assessable: {why}.")
    primary = next((one for one in judged if one.key == PRIMARY), judged[0])
    word = words[primary.key]
    if word == NOT_ASSESSABLE:
        why = (
            f"{primary.key} is defined on no query, since an update is zero: "
            "the demonstrations or the fine-tuning change nothing"
        )
        return Verdict(word, f"Not assessable: {why}.")
    rest = [key for key, said in words.items() if key != primary.key]
    higher = [key for key in rest if words[key] == MORE]
    with_twin = [key for key in rest if words[key] == NOT_BEYOND_TWINS]
    beside = any(one.beyond for one in judged)
    return Verdict(
        word,
        f"In-context learning (ICL) and fine-tuning (FT) on the same demonstrations move attention "
        f"outputs {_said(word, primary)} than ICL and FT on "
        f"{mismatches.get(primary.mismatch, primary.mismatch)} "
        f"({_figures(primary)}). {_others(rest, higher, with_twin, beside)}",
    )


def _said(word: str, one: Judged) -> str:
    if word == NOT_BEYOND_TWINS:
        return "more alike (but not beyond every untrained twin)"
    if word == MORE:
        return "more alike (beyond every untrained twin)" if one.beyond else "more alike"
    return f"{NO_MORE} (if anything less)" if one.difference.high < 0 else NO_MORE


def _figures(one: Judged) -> str:
    numbers = f"{one.key} {one.matched.estimate:.3f} against {one.mismatched.estimate:.3f}"
    low, high = one.difference.low, one.difference.high
    return (
        f"{numbers}, difference {one.difference.estimate:.3f} [{low:.3f}, {high:.3f}], "
        f"corrected p {one.p_corrected:.3g}"
    )


def _others(
    rest: Sequence[str], higher: Sequence[str], with_twin: Sequence[str], beside: bool
) -> str:
    """The other measures; `beside`: whether there is a twin to be beyond."""
    if not rest:
        return "No other measure is evidence here."
    if not higher and not with_twin:
        return f"None of the other {len(rest)} measures that are evidence is higher there either."
    parts = []
    if higher:
        beyond = "beyond the twins" if beside else "no twin beside"
        parts.append(f"higher there, {beyond}: {', '.join(higher)}")
    if with_twin:
        parts.append(f"higher there, not beyond every twin: {', '.join(with_twin)}")
    return f"Of the other {len(rest)} measures that are evidence, {'; '.join(parts)}."
