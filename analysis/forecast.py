"""How well the distributions of the answers foretell the truth, with intervals over contexts."""

from typing import NamedTuple

import numpy as np

from analysis.design import Floats
from analysis.distribution import Distributions, covered, crps, log_score, pit
from analysis.inference import Interval, mean_interval

LEVELS = (0.5, 0.8, 0.9)


class Forecast(NamedTuple):
    """The answers' distributions against the truth; intervals are over contexts.

    log_score_nats: of the truths that have explored mass. log_score_at_least_nats: of all, the
        bound that the unexplored mass leaves (infinite where a truth is impossible).
    truths, missing: how many truths are known, and how many of them have no explored mass.
    undefined: how many answers have no distribution at all.
    crps: in printed units. coverage: by level, the share of truths inside the central interval.
    unexplored: the largest mass that was left out of a distribution.
    """

    log_score_nats: Interval
    log_score_at_least_nats: Interval
    truths: int
    missing: int
    undefined: int
    crps: Interval
    coverage: dict[float, Interval]
    unexplored: float


def forecast(
    given: Distributions, truth: Floats, *, levels: tuple[float, ...] = LEVELS
) -> Forecast:
    """Proper scores and coverage of the answers' distributions.

    truth: (C, M), as printed, NaN where it is not known. Each context counts once, by the mean
    over its queries.
    """
    score = log_score(given, truth)
    return Forecast(
        log_score_nats=over_contexts(score.nats),
        log_score_at_least_nats=_or_infinite(score.at_least),
        truths=int(np.isfinite(truth).sum()),
        missing=score.missing,
        undefined=int((given.probabilities.sum(-1) == 0).sum()),
        crps=over_contexts(crps(given, truth)),
        coverage={level: share(covered(given, truth, level)) for level in levels},
        unexplored=float(given.unexplored.max(initial=0.0)),
    )


def calibration_curve(given: Distributions, truth: Floats, levels: Floats) -> list[Interval]:
    """For each level u, how often the probability integral transform of the truth is up to u.

    Equals u throughout where the distributions are calibrated. An answer counts by the part of
    its own step, from the mass below the truth to the mass up to it, that lies below u (the
    non-randomised transform of Czado, Gneiting & Held 2009, Biometrics 65, section 2.1).
    """
    below, upto = pit(given, truth)
    step = upto - below
    curve = []
    for level in levels:
        part = np.divide(level - below, step, where=step > 0, out=np.zeros_like(step))
        reached = np.where(step > 0, np.clip(part, 0, 1), (level >= below).astype(np.float64))
        curve.append(share(np.where(np.isnan(step), np.nan, reached)))
    return curve


def over_contexts(values: Floats) -> Interval:
    """The mean over contexts of each one's mean over queries (C, M); NaN is left out."""
    known = np.isfinite(values)
    counts = known.sum(1)
    sums = np.where(known, values, 0.0).sum(1)
    return mean_interval(np.divide(sums, counts, where=counts > 0, out=np.full(len(sums), np.nan)))


def share(values: Floats) -> Interval:
    """`over_contexts` of zeros and ones; a share and its interval lie in [0, 1]."""
    found = over_contexts(values)
    return Interval(*(float(np.clip(bound, 0.0, 1.0)) for bound in found))


def _or_infinite(values: Floats) -> Interval:
    if np.isposinf(values).any():
        return Interval(np.inf, np.nan, np.inf)
    return over_contexts(values)
