"""How near the model's answers are to what each hypothesis predicts."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import KINDS, Hypothesis, predict
from analysis.design import ContextArrays, Floats
from analysis.diagnostics import inversion_verdict
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
    spread: Floats | float | None = None,
) -> tuple[Agreement, ...]:
    """Every hypothesis beside the model's answers, nearest first; intervals over units.

    targets: (C, M), the queries' own y. spread: the sd of the model's reading, (C, M) or one number
    in codec units; then a hypothesis is compared with the nearest one on those queries alone where
    the two differ by more than that. Where no answer could be read all figures are NaN and the
    order is that of `hypotheses`.
    """
    checked_targets(contexts, targets)
    units = units_of(contexts, blocks)
    readable = np.isfinite(contexts.answers)
    predictions = [predict(one, contexts) for one in hypotheses]
    aliases = same_as(predictions, hypotheses)
    predictions = without_rounding(predictions, hypotheses, aliases)
    misses = [(contexts.answers - one) ** 2 for one in predictions]
    variance = within_variance(contexts, units)
    spds = [ratio_interval(units.mean(one), variance) for one in misses]
    order = np.argsort([one.estimate for one in spds], kind="stable")
    same = [aliases[place] for place in order]
    counted = [told(predictions[place], predictions[order[0]], spread) for place in order]
    lead = [
        units.mean(np.where(used, misses[place] - misses[order[0]], np.nan))
        for place, used in zip(order, counted, strict=True)
    ]
    behind = behind_nearest(lead, variance, same)
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


def without_rounding(
    predictions: Sequence[Floats], hypotheses: Sequence[Hypothesis], aliases: Sequence[str]
) -> list[Floats]:
    """The predictions, an alias with exactly those of its first name: so that it never leads."""
    place = {one.name: at for at, one in reversed(list(enumerate(hypotheses)))}
    pairs = zip(predictions, aliases, strict=True)
    return [predictions[place[alias]] if alias else own for own, alias in pairs]


def told(one: Floats, other: Floats, spread: Floats | float | None) -> NDArray[np.bool_]:
    """Queries (C, M) on which two predictions differ by more than the spread; all without one."""
    if spread is None:
        return np.ones(one.shape, dtype=bool)
    return np.asarray(np.abs(one - other) > spread)


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


def kin(hypothesis: Hypothesis, contexts: ContextArrays) -> tuple[str, int]:
    """Family, and inside S^-1 whether the row counts as S^-1 here: 1, -1 if not, else 0.

    0 is between, undefined or another family (`analysis.diagnostics.inversion_verdict`).
    """
    if hypothesis.family != "inverse":
        return hypothesis.family, 0
    says = inversion_verdict(hypothesis, contexts).says
    return hypothesis.family, {"counts": 1, "does not count": -1}.get(says, 0)


def are_kin(kinds: Collection[tuple[str, int]]) -> bool:
    """Whether one name may speak for hypotheses of these kinds (`kin`).

    They are of one family, and not one that counts as S^-1 with one that does not, as least squares
    and one principal component.
    """
    return len({family for family, _ in kinds}) == 1 and not {1, -1} <= {sign for _, sign in kinds}


def simplest_first(names: Sequence[str], hypotheses: Sequence[Hypothesis]) -> tuple[str, ...]:
    """The names in the order of the bank's table, ols first; names of the user's own come last."""
    kinds = list(KINDS)
    given = [one.name for one in hypotheses]

    def place(name: str) -> tuple[int, int]:
        kind = name.partition("(")[0].strip()
        return (kinds.index(kind) if kind in kinds else len(kinds)), given.index(name)

    return tuple(sorted(names, key=place))


def class_of(
    nearest: Sequence[str],
    hypotheses: Sequence[Hypothesis],
    contexts: ContextArrays,
    *,
    untold: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Names that cannot be told apart as one class, the simplest first; empty if they are no kin.

    The first name speaks for the class (`simplest_first`); the others are to be said beside it.
    untold: for a name, others that the design does not tell from it (`analysis.separability`);
    those that are kin of all join the class, whatever these very answers seem to say.
    """
    by_name = {one.name: one for one in reversed(hypotheses)}
    kinds = [kin(by_name[name], contexts) for name in nearest]
    if not are_kin(kinds):
        return ()
    members = list(nearest)
    for name in nearest:
        for other in untold.get(name, ()):
            if other in by_name and other not in members:
                kinds.append(kin(by_name[other], contexts))
                members.append(other)
                if not are_kin(kinds):
                    del kinds[-1], members[-1]
    return simplest_first(members, hypotheses)
