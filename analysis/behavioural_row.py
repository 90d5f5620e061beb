"""What the behavioural row says: whose row it is, whether it equals it, and what that rests on."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from analysis.agreement import SAME, behind_nearest, class_of, same_as, without_rounding
from analysis.bank import BANK, Hypothesis
from analysis.behaviour import LEAST_UNITS, named, nearest_words, plural
from analysis.design import ContextArrays, Floats
from analysis.held_out import Units, units_of
from analysis.inference import Interval, ratio_interval, smallest_flip_p
from analysis.row_calibration import (
    Calibration,
    Equality,
    Linear,
    RowSums,
    calibration,
    equality,
    linearity,
    reliability,
    row_sums,
    row_total,
    summed,
    units_needed,
)
from analysis.row_runs import Cells, RowRuns, checked_runs, hypothesis_runs


class RowAgreement(NamedTuple):
    """One hypothesis beside the behavioural row.

    distance: squared difference from the hypothesis' row over the mean squared length of the row,
        which is taken as fixed; 0 is the same row. behind_nearest, separable, same_as: as in
        `analysis.agreement.Agreement`, of that distance.
    slope, r2, share_of_reliability: see `analysis.row_calibration.Calibration`.
    equals: whether the slope lies in [.8, 1.25] and the share is at least .8, by whole intervals.
    """

    hypothesis: str
    distance: Interval
    behind_nearest: Interval
    separable: bool
    same_as: str
    slope: Interval
    r2: Interval
    share_of_reliability: Interval
    equals: Equality


class BehaviouralRow(NamedTuple):
    """The statement on the behavioural row, with its figures.

    label: "equals NAME", "nearest to NAME", "not separable among NAMES" or "not assessable:
        REASON"; NAME speaks for kin that cannot be told from it (`inseparable`). "equals" needs
        two sizes that agree, two orders, and NAME's own `equals`.
    sentence: the same in plain words. assessable: False where the figures are description only.
    linearity: relative difference of the rows of two sizes; linear: what it says.
    reliability: see `analysis.row_calibration.reliability`. total: what a row sums to.
    nearest: hypotheses that cannot be told from the nearest one. lines: nearest first.
    missing: cells that some run could not measure, of `asked`. units: how many were measured.
    without_row: hypotheses that are predictors only.
    """

    label: str
    sentence: str
    assessable: bool
    linearity: Interval
    linear: Linear
    reliability: Interval
    total: Interval
    lines: tuple[RowAgreement, ...]
    nearest: tuple[str, ...]
    inseparable: tuple[str, ...]
    missing: int
    asked: int
    units: int
    unit: str
    without_row: tuple[str, ...]


def behavioural_row(
    row_runs: RowRuns,
    contexts: ContextArrays,
    hypotheses: Iterable[Hypothesis] = tuple(BANK.values()),
    *,
    blocks: Sequence[int] | None = None,
    unit: str = "context",
) -> BehaviouralRow:
    """Compare the measured row with itself in other runs and with every hypothesis' row.

    contexts: the main contexts. blocks, unit: as in `analysis.behaviour.behaviour`. Too few units
    for an interval, or a row that is 0 throughout, end in "not assessable" with the reason.
    """
    checked_runs(row_runs, contexts)
    units = units_of(contexts, blocks)
    many = tuple(hypotheses)
    compared = [one for one in many if one.row is not None]
    sums = row_sums(row_runs)
    lines = row_agreement(row_runs, contexts, compared, units)
    measured = counted_units(row_runs, units)
    apart, linear = linearity(row_runs, units)
    reason = why_not_assessable(row_runs, sums, measured, unit)
    nearest = tuple(one.hypothesis for one in lines if not one.separable and not one.same_as)
    nearest = () if reason else nearest
    named_class = class_of(nearest, compared, contexts)
    found = BehaviouralRow(
        label="",
        sentence="",
        assessable=not reason,
        linearity=apart,
        linear=linear,
        reliability=reliability(sums, units),
        total=row_total(row_runs, units),
        lines=lines,
        nearest=nearest,
        inseparable=named_class[1:],
        missing=int((~row_runs.known).sum()),
        asked=row_runs.known.size,
        units=measured,
        unit=unit,
        without_row=tuple(one.name for one in many if one.row is None),
    )
    return worded(found, row_runs, named_class[:1], reason)


def counted_units(row_runs: RowRuns, units: Units) -> int:
    """Units with at least one cell that every run measured."""
    return len(np.unique(units.of_context[row_runs.known.any(axis=(1, 2))]))


def why_not_assessable(row_runs: RowRuns, sums: RowSums, measured: int, unit: str) -> str:
    """The reason why no hypothesis can be named, or empty."""
    if measured == 0:
        return "the answer to no changed example could be read"
    if measured < LEAST_UNITS:
        return (
            f"{plural(measured, unit)} with a measured row, at least {LEAST_UNITS} are needed (the "
            f"signs of {measured} can give no two-sided p below "
            f"{2 * smallest_flip_p(measured):.3g})"
        )
    if not sums.raw.any():
        return "no answer changes with the y of any example"
    return ""


def row_agreement(
    row_runs: RowRuns, contexts: ContextArrays, hypotheses: Sequence[Hypothesis], units: Units
) -> tuple[RowAgreement, ...]:
    """Every hypothesis with a row beside the measured one, nearest first."""
    known = row_runs.known
    made = [hypothesis_runs(one, contexts, row_runs.orders) for one in hypotheses]
    aliases = same_as(made, hypotheses)
    made = without_rounding(made, hypotheses, aliases)
    sums = row_sums(row_runs)
    length = mean_length(per_unit(sums.raw, known, units))
    apart = [
        per_unit(
            summed(np.where(known, row_runs.values - one, 0.0) ** 2).mean(axis=(0, 1)), known, units
        )
        for one in made
    ]
    distances = [ratio_interval(one, length) for one in apart]
    order = np.argsort([one.estimate for one in distances], kind="stable")
    same = [aliases[place] for place in order]
    behind = behind_nearest([apart[place] - apart[order[0]] for place in order], length, same)
    lines = []
    for rank, place in enumerate(order):
        found = calibration(row_runs, sums, made[place], units)
        lines.append(
            RowAgreement(
                hypothesis=hypotheses[place].name,
                distance=distances[place],
                behind_nearest=behind[rank],
                separable=behind[rank].low > 0,
                same_as=same[rank],
                slope=found.slope,
                r2=found.r2,
                share_of_reliability=found.share_of_reliability,
                equals=equality(found),
            )
        )
    return tuple(lines)


def mean_length(lengths: Floats) -> Floats:
    """The mean squared length for every unit that has one, (units,).

    Divided by each unit's own share of it, a difference that is above 0 in every context could
    still have an interval across 0, since a few rows with far queries are many times as long.
    """
    known = np.isfinite(lengths)
    mean = lengths[known].mean() if known.any() else np.nan
    return np.where(known, mean, np.nan)


def per_unit(sums: Floats, known: Cells, units: Units) -> Floats:
    """Sums (C,) as means over a unit's contexts; a context without a known cell is left out."""
    return units.mean(np.where(known.any(axis=(1, 2)), sums, np.nan)[:, None])


def worded(
    found: BehaviouralRow, row_runs: RowRuns, name: tuple[str, ...], reason: str
) -> BehaviouralRow:
    """The same with its label and sentence; name: what speaks for the nearest, empty if nothing."""
    if reason:
        return found._replace(
            label=f"not assessable: {reason}",
            sentence=f"The behavioural row is not assessable: {reason}.",
        )
    line = next(one for one in found.lines if one.hypothesis == (name or found.nearest)[0])
    why_not = why_not_equal(found, line, row_runs)
    equal = bool(name) and not why_not
    label = f"equals {name[0]}" if equal else nearest_words(name or found.nearest)
    parts = [
        f"The behavioural row (change of the mean answer with an example's y), over "
        f"{plural(found.units, found.unit)}: {label}, at a squared distance of "
        f"{words(line.distance)} of its squared length.",
    ]
    if found.inseparable:
        parts.append(f"Not separable from it on this design: {named(found.inseparable)}.")
    parts.append(calibration_words(line))
    if name and not equal:
        parts.append(f"It is not said to equal {name[0]}: {why_not}.")
    parts += [linear_words(found, row_runs), reliability_words(found, row_runs)]
    if found.missing:
        parts.append(f"{found.missing} of {found.asked} cells could not be measured.")
    return found._replace(label=label, sentence=" ".join(parts))


def why_not_equal(found: BehaviouralRow, line: RowAgreement, row_runs: RowRuns) -> str:
    """What speaks against "equals", or is missing for it; empty where nothing does."""
    if len(row_runs.sizes) < 2 or len(row_runs.orders) < 2:
        return (
            f"that needs two sizes and two orders; measured were {len(row_runs.sizes)} and "
            f"{len(row_runs.orders)}"
        )
    if found.linear != "agree":
        return "the rows of the two sizes do not agree surely enough"
    if line.equals == "equals":
        return ""
    if line.equals == "undefined":
        return "its row does not vary within a context, or nothing is shared by two runs"
    if line.equals == "does not equal":
        return "its slope lies outside 0.8 to 1.25, or it explains less than 0.8 of the reliability"
    needed = units_needed(Calibration(line.slope, line.r2, line.share_of_reliability), found.units)
    more = f"; about {plural(needed, found.unit)} would decide it" if needed else ""
    return f"the intervals of slope or share reach past their bounds{more}"


def calibration_words(line: RowAgreement) -> str:
    """Slope, R2 and its share of the reliability, in words."""
    return (
        f"Calibration slope on the row of {line.hypothesis} {words(line.slope)}, R2 "
        f"{words(line.r2)}, which is {words(line.share_of_reliability)} of the reliability."
    )


def linear_words(found: BehaviouralRow, row_runs: RowRuns) -> str:
    """Whether the two sizes agree."""
    if len(row_runs.sizes) < 2:
        return "One size was measured, so it was not checked that the answer is linear in y."
    said = {
        "agree": "agree",
        "do not agree": "do not agree: the answer is not linear in y, the row depends on the size",
        "not separable": "may or may not agree",
        "undefined": "cannot be compared",
    }[found.linear]
    first, last = row_runs.sizes[0], row_runs.sizes[-1]
    return (
        f"The rows of the sizes {first:.3g} and {last:.3g} (codec units) {said}; relative "
        f"difference {words(found.linearity)}."
    )


def reliability_words(found: BehaviouralRow, row_runs: RowRuns) -> str:
    """The reliability and what it is over."""
    over = [
        f"{count} {what}"
        for count, what in ((len(row_runs.sizes), "sizes"), (len(row_runs.orders), "orders"))
        if count > 1
    ]
    if not over:
        return "With one run there is no reliability."
    return f"Reliability over {' and '.join(over)}: {words(found.reliability)}."


def words(interval: Interval) -> str:
    """0.98 (0.97 to 0.99); "undefined" where it is NaN; what is below 1e-9 is said as 0."""
    if not np.isfinite(interval.estimate):
        return "undefined"
    said = [f"{0.0 if abs(bound) < SAME else bound:.2g}" for bound in interval]
    return f"{said[0]} ({said[1]} to {said[2]})"
