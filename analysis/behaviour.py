"""What the model's answers are worth and which hypothesis they resemble: the behaviour label."""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from analysis.agreement import (
    Agreement,
    agreement,
    class_of,
    nearest_names,
    within_variance,
)
from analysis.bank import BANK, Hypothesis
from analysis.design import ContextArrays, Floats
from analysis.held_out import MODEL, RIVALS, HeldOutErrors, held_out_errors, units_of
from analysis.inference import Interval, smallest_flip_p

# Of five units even the best sign-flip p, two-sided, is 1/16: above .05.
LEAST_UNITS = 6
NAMED_AT_MOST = 6

Standing = Literal["better", "worse", "not separable", "undefined"]


class Behaviour(NamedTuple):
    """The behaviour label of a model on one task, with the figures behind it.

    label: "nearest to NAME", "not separable among NAMES", "does not beat the mean" or
        "not assessable: REASON"; sentence: the same in plain words with its figures. NAME speaks
        for all that these contexts cannot tell from it (`inseparable`) where they are kin; it is
        then the first of them in the order of the bank's table, ols first
        (`analysis.agreement.class_of`). Where they are no kin, no name can speak for them.
    assessable: False where the label is "not assessable"; the figures are then description.
    passes_gate: whether the answers beat the mean, which a verdict on attention needs.
    beats_mean, beats_nearest: None where not assessable.
    standing: for each rival predictor whether the model's absolute error is better or worse.
    parse_rate: share of the answers that could be read, NaN where nothing was asked.
    nearest: hypotheses that cannot be told from the nearest one, nearest first.
    unit: what is resampled; `errors.units` of them have a readable answer.
    inseparable: the others of the class of NAME, empty without one.
    """

    label: str
    sentence: str
    assessable: bool
    passes_gate: bool
    beats_mean: bool | None
    beats_nearest: bool | None
    standing: dict[str, Standing]
    parse_rate: float
    errors: HeldOutErrors
    agreement: tuple[Agreement, ...]
    nearest: tuple[str, ...]
    unit: str
    inseparable: tuple[str, ...] = ()


def behaviour(
    contexts: ContextArrays,
    targets: Floats,
    hypotheses: Iterable[Hypothesis] = tuple(BANK.values()),
    *,
    blocks: Sequence[int] | None = None,
    unit: str = "context",
    printed_size: float = 1.0,
    spread: Floats | float | None = None,
    mean_answers: Floats | None = None,
    untold: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Behaviour:
    """Compare the model's answers with simple predictors and with every hypothesis.

    targets: (C, M), the queries' own y in codec coordinates. blocks: the resampled unit of each
    context where contexts are not independent, `unit` its name. printed_size: what one codec
    unit of y is in printed numbers; the sentence speaks in those, all arrays in codec units.
    spread: sd of the reading, which leaves out queries that cannot tell (`agreement`).
    mean_answers: (C, M), the means of the answers' distributions in codec coordinates, where they
    were read; hypotheses are then compared with these, the gate stays with the printed answers.
    untold: hypotheses that the design does not tell from another, by name (`class_of`).
    The gate and every paired comparison are of absolute errors, with skewness-corrected t
    intervals over units (`analysis.inference.around`).
    """
    errors = held_out_errors(contexts, targets, blocks=blocks)
    many = tuple(hypotheses)
    compared = contexts if mean_answers is None else contexts._replace(answers=mean_answers)
    lines = agreement(compared, targets, many, blocks=blocks, spread=spread)
    reason = why_not_assessable(contexts, errors, unit)
    standing = {name: stands(errors.absolute_difference[name]) for name in RIVALS}
    beats_mean = standing["mean"] == "better" and not reason
    nearest = nearest_names(lines) if errors.readable else ()
    named_class = class_of(nearest, many, contexts, untold=untold)
    they = "they are" if mean_answers is None else "their means are"
    alike = resemblance(lines, nearest, named_class, they=they) if nearest else ""
    return Behaviour(
        label=label_of(reason, beats_mean, named_class[:1] or nearest),
        sentence=sentence_of(reason, errors, standing, alike, printed_size, unit),
        assessable=not reason,
        passes_gate=beats_mean,
        beats_mean=None if reason else beats_mean,
        beats_nearest=None if reason else standing["nearest"] == "better",
        standing=standing,
        parse_rate=errors.readable / errors.asked if errors.asked else math.nan,
        errors=errors,
        agreement=lines,
        nearest=nearest,
        unit=unit,
        inseparable=named_class[1:],
    )


def why_not_assessable(contexts: ContextArrays, errors: HeldOutErrors, unit: str) -> str:
    """The reason why the answers cannot be judged, or empty."""
    if errors.readable == 0:
        return f"none of {errors.asked} answers could be read as a number"
    if errors.units < LEAST_UNITS:
        return (
            f"{plural(errors.units, unit)} with a readable answer, at least {LEAST_UNITS} are "
            f"needed (the signs of {errors.units} can give no two-sided p below "
            f"{2 * smallest_flip_p(errors.units):.3g})"
        )
    if not within_variance(contexts, units_of(contexts, None)).any():
        return "y does not vary within any context"
    return ""


def stands(difference: Interval) -> Standing:
    """How the model's error stands to a rival's, from the interval of their difference."""
    if not math.isfinite(difference.low):
        return "undefined"
    if difference.high < 0:
        return "better"
    return "worse" if difference.low > 0 else "not separable"


def label_of(reason: str, beats_mean: bool, nearest: tuple[str, ...]) -> str:
    """The label; see `Behaviour`."""
    if reason:
        return f"not assessable: {reason}"
    if not beats_mean:
        return "does not beat the mean"
    if not nearest:
        return "beats the mean"
    return nearest_words(nearest)


def nearest_words(nearest: tuple[str, ...]) -> str:
    """``nearest to NAME`` or ``not separable among NAMES``."""
    return f"{'nearest to' if len(nearest) == 1 else 'not separable among'} {named(nearest)}"


def named(names: tuple[str, ...]) -> str:
    """The names in a row; of a long list the first ones and how many more."""
    more = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def sentence_of(
    reason: str,
    errors: HeldOutErrors,
    standing: dict[str, Standing],
    alike: str,
    printed_size: float,
    unit: str,
) -> str:
    """The label in plain words, with the figures that led to it; alike: the last sentence."""
    if reason:
        return f"The answers are not assessable: {reason}."
    model, mean, near = (
        f"{errors.absolute[name].estimate * printed_size:.3g}"
        for name in (MODEL, "mean", "nearest")
    )
    where = f"over {plural(errors.units, unit)} ({errors.readable} of {errors.asked} answers read)"
    beside = f"{STANDING_WORDS[standing['nearest']]} the nearest example ({near})"
    if standing["mean"] != "better":
        return (
            f"The answers do not beat the mean: {where} they are off by {model} on average, "
            f"{STANDING_WORDS[standing['mean']]} the mean of the examples ({mean}) and {beside}."
        )
    text = (
        f"The answers beat the mean: {where} they are off by {model} on average, the mean of the "
        f"examples by {mean}; they are {beside}."
    )
    return f"{text} {alike}".rstrip()


def resemblance(
    lines: tuple[Agreement, ...],
    nearest: tuple[str, ...],
    named_class: tuple[str, ...],
    *,
    they: str = "they are",
) -> str:
    """Which hypotheses the answers are nearest to, and how near."""
    said = named_class[0] if named_class else lines[0].hypothesis
    spd = next(one.spd for one in lines if one.hypothesis == said)
    away = (
        f"a squared distance of {spd.estimate:.2g} of the variance of y "
        f"(95 % interval {spd.low:.2g} to {spd.high:.2g})"
    )
    if named_class:
        others = f"; not separable from it on this design: {named(named_class[1:])}"
        return (
            f"Of {len(lines)} hypotheses {they} nearest to {said}, at {away}"
            f"{others if named_class[1:] else ''}."
        )
    return (
        f"Of {len(lines)} hypotheses the nearest cannot be told apart: {named(nearest)}; "
        f"the first is at {away}."
    )


STANDING_WORDS: dict[Standing, str] = {
    "better": "better than",
    "worse": "worse than",
    "not separable": "not separable from",
    "undefined": "without a comparison to",
}


def plural(count: int, what: str) -> str:
    """``1 context``, ``3 contexts``, ``3 blocks of rows``."""
    if count == 1:
        return f"{count} {what}"
    first, *rest = what.split(" ", 1)
    return " ".join([f"{count} {first}s", *rest])
