"""How near the model's answers are to what each hypothesis predicts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.bank import Hypothesis, predict
from analysis.design import ContextArrays, Floats
from analysis.held_out import Units, checked_targets, units_of
from analysis.inference import Interval, mean_interval, ratio_interval

# Predictions nearer than this (codec units) are one prediction under two names.
SAME = 1e-9


class Agreement(NamedTuple):
    """One hypothesis beside the model's answers, on the queries whose answer could be read.

    spd: squared distance of the answers to the predictions as a share of Var(y): mean over units
    of the squared difference (2211.15661, section 4) over the mean variance of y within a
    context; 0 is the same answers. NaN where y does not vary.
    behind_nearest: its spd minus that of the nearest hypothesis, paired by unit. The nearest was
    chosen by looking, so the interval is widened for the number of hypotheses (Holm: for those that
    are not separated yet). separable: whether it lies above 0.
    held_out_error: mean absolute error of the hypothesis itself against the queries' own y.
    same_as: the hypothesis listed before that makes the same predictions here, or empty.
    """

    hypothesis: str
    spd: Interval
    behind_nearest: Interval
    separable: bool
    held_out_error: Interval
    same_as: str


def agreement(
    contexts: ContextArrays,
    targets: Floats,
    hypotheses: Sequence[Hypothesis],
    *,
    blocks: Sequence[int] | None = None,
) -> tuple[Agreement, ...]:
    """Every hypothesis beside the model's answers, nearest first; intervals over units.

    targets: (C, M), the queries' own y. Where no answer could be read all figures are NaN and the
    order is that of `hypotheses`.
    """
    checked_targets(contexts, targets)
    units = units_of(contexts, blocks)
    readable = np.isfinite(contexts.answers)
    predictions = [predict(one, contexts) for one in hypotheses]
    apart = [units.mean((contexts.answers - one) ** 2) for one in predictions]
    variance = within_variance(contexts, units)
    spds = [ratio_interval(one, variance) for one in apart]
    order = np.argsort([one.estimate for one in spds], kind="stable")
    same = same_as([predictions[place] for place in order], [hypotheses[place] for place in order])
    behind = behind_nearest([apart[place] - apart[order[0]] for place in order], variance, same)
    lines = []
    for rank, place in enumerate(order):
        missed = np.where(readable, np.abs(predictions[place] - targets), np.nan)
        lines.append(
            Agreement(
                hypothesis=hypotheses[place].name,
                spd=spds[place],
                behind_nearest=behind[rank],
                separable=behind[rank].low > 0,
                held_out_error=mean_interval(units.mean(missed)),
                same_as=same[rank],
            )
        )
    return tuple(lines)


def behind_nearest(
    differences: Sequence[Floats], variance: Floats, same: Sequence[str]
) -> list[Interval]:
    """Intervals of the differences (units,) from the first hypothesis, stepping down as Holm does.

    Each step widens for the distinct hypotheses that no step has separated from the first yet.
    """
    left = list(range(len(differences)))
    found: dict[int, Interval] = {}
    while left:
        comparisons = max(sum(not same[rank] for rank in left if rank), 1)
        for rank in left:
            found[rank] = ratio_interval(differences[rank], variance, comparisons=comparisons)
        still = [rank for rank in left if not found[rank].low > 0]
        if len(still) == len(left):
            break
        left = still
    return [found[rank] for rank in range(len(differences))]


def within_variance(contexts: ContextArrays, units: Units) -> Floats:
    """Mean over a unit's contexts of the variance of the examples' y, (units,).

    Exactly 0 where all y of a context are one number.
    """
    if contexts.y.shape[1] < 2:
        return np.zeros(units.size)
    varies = np.ptp(contexts.y, axis=1) > 0
    return units.mean(np.where(varies, contexts.y.var(axis=1, ddof=1), 0.0)[:, None])


def same_as(predictions: Sequence[Floats], hypotheses: Sequence[Hypothesis]) -> list[str]:
    """For each hypothesis the name of an earlier one with the same predictions, or empty."""
    names: list[str] = []
    for place, one in enumerate(predictions):
        earlier = (
            hypotheses[before].name
            for before in range(place)
            if not names[before] and np.abs(predictions[before] - one).max() <= SAME
        )
        names.append(next(earlier, ""))
    return names


def nearest_names(lines: Sequence[Agreement]) -> tuple[str, ...]:
    """The hypotheses that cannot be told from the nearest one, nearest first, aliases left out."""
    return tuple(one.hypothesis for one in lines if not one.separable and not one.same_as)
