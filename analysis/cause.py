"""Whether changing some heads changes the answers more than changing random heads does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.behaviour import LEAST_UNITS, plural
from analysis.design import Floats
from analysis.held_out import Units
from analysis.inference import Interval, around, mean_interval
from analysis.row_change import RowChange, Rows, row_change

MATTERS = "matters"
NO_MORE = "does not matter more than random heads"
NOT_ASSESSABLE = "not assessable"
# Share of the random sets that may do as much as heads of which it is said that they matter.
LEVEL = 0.05

KIND_WORDS: Mapping[str, str] = {
    "mean": "set to their mean over contexts",
    "zero": "set to zero",
    "patch": "set to their values in another context",
}


class Changed(NamedTuple):
    """The answers with heads changed in one way, codec coordinates, NaN where unreadable.

    named: (C, M), with the named heads changed; random: (D, C, M), with each random set.
    """

    named: Floats
    random: Floats


class Effect(NamedTuple):
    """What one way of changing heads does to the absolute error, in codec units.

    error: with the named heads changed. change: that less the error of the unchanged model;
    random: the same of each random set. difference: the named heads' change less the mean change
    of the random sets. All are means over units with skewness-corrected t intervals, paired by
    query; change and difference hold together over all ways of changing. as_much: how many random
    sets change the error at least as much. moved: mean distance of the answers from those of the
    unchanged model. lost: answers that could be read before and not after; lost_random: the same,
    mean over the random sets. matters: see `cause`.
    """

    kind: str
    error: Interval
    change: Interval
    random: tuple[Interval, ...]
    difference: Interval
    as_much: int
    moved: Interval
    lost: int
    lost_random: float
    matters: bool


class Cause(NamedTuple):
    """Whether the named heads cause the answers, with the figures behind it.

    label: "matters", "does not matter more than random heads" or "not assessable: REASON";
    sentence: the same in plain words. error: absolute error of the unchanged model. effects: one
    a way of changing heads. row: the change of a row's part along a target row, None where no
    rows were given. units: how many have answers that can be compared; sets: random sets.
    """

    label: str
    sentence: str
    assessable: bool
    error: Interval
    effects: tuple[Effect, ...]
    row: RowChange | None
    units: int
    sets: int


def cause(
    base: Floats,
    changed: Mapping[str, Changed],
    targets: Floats,
    *,
    blocks: Sequence[int] | None = None,
    unit: str = "context",
    printed_size: float = 1.0,
    rows: Rows | None = None,
    row_name: str = "least-squares",
    short: str = "",
) -> Cause:
    """Compare what the named heads do to the error with what random heads do.

    base: (C, M), answers of the unchanged model; targets: (C, M), the queries' own y; both in
    codec coordinates. changed: by the way of changing heads ("mean", "zero", "patch"). The named
    heads matter if, in at least one way, their change of the error and its difference from the
    mean of the random sets lie above 0 (intervals that hold together over the ways), and at most
    one random set in twenty does as much. With fewer than 19 sets even heads drawn at random are
    the first among them more often than that: the sentence says how often. blocks: the resampled
    unit of each context, `unit` its name. printed_size: printed numbers in one codec unit, for the
    sentence. rows: a row before and after the change, of all or of the first contexts, for the
    share of a target row (`row_name`) in it. short: what the random sets lack, appended to the
    sentence.
    Refuses arrays of unlike shapes, and no way of changing at all.
    """
    _check(base, changed, targets)
    units = _units(len(base), blocks)
    missed = np.abs(base - targets)
    effects = tuple(
        _effect(kind, missed, base, one, targets, units, comparisons=len(changed))
        for kind, one in changed.items()
    )
    sets = min(len(one.random) for one in changed.values())
    comparable = min(_comparable(base, one, units) for one in changed.values())
    reason = _why_not(comparable, sets, unit)
    deciding = next((one for one in effects if one.matters), effects[0])
    row = None
    if rows is not None:
        row = row_change(rows, blocks=None if blocks is None else blocks[: len(rows.target)])
    matters = MATTERS if deciding.matters else NO_MORE
    sentence = (
        f"Whether the heads matter is not assessable: {reason}."
        f"{_described(effects, printed_size)}{_lost_words(deciding)}"
        if reason
        else _sentence(deciding, effects, printed_size, plural(comparable, unit))
    )
    return Cause(
        label=f"{NOT_ASSESSABLE}: {reason}" if reason else matters,
        sentence=sentence
        + _row_words(row, row_name)
        + (f" Of the random sets: {short}." if short else ""),
        assessable=not reason,
        error=mean_interval(units.mean(missed)),
        effects=effects,
        row=row,
        units=comparable,
        sets=sets,
    )


def _effect(
    kind: str,
    missed: Floats,
    base: Floats,
    changed: Changed,
    targets: Floats,
    units: Units,
    *,
    comparisons: int,
) -> Effect:
    after = np.abs(changed.named - targets)
    random = np.abs(changed.random - targets)
    change = _paired(units.mean(after - missed), comparisons)
    of_sets = tuple(mean_interval(units.mean(one - missed)) for one in random)
    beside = [units.mean(after - one) for one in random]
    difference = _paired(np.mean(beside, axis=0) if beside else np.empty(0), comparisons)
    as_much = sum(not mean_interval(one).estimate > 0 for one in beside)
    read = np.isfinite(base)
    lost = [int((read & ~np.isfinite(one)).sum()) for one in (changed.named, *changed.random)]
    return Effect(
        kind=kind,
        error=mean_interval(units.mean(after)),
        change=change,
        random=of_sets,
        difference=difference,
        as_much=as_much,
        moved=mean_interval(units.mean(np.abs(changed.named - base))),
        lost=lost[0],
        lost_random=float(np.mean(lost[1:])) if beside else np.nan,
        matters=change.low > 0 and difference.low > 0 and as_much <= LEVEL * len(beside),
    )


def _paired(differences: Floats, comparisons: int) -> Interval:
    """The mean of one difference a unit; units without one are left out."""
    known = differences[np.isfinite(differences)]
    if len(known) == 0:
        return mean_interval(known)
    return around(float(known.mean()), known, comparisons=comparisons)


def _comparable(base: Floats, changed: Changed, units: Units) -> int:
    """Units in which the named heads' change can be compared with that of every random set."""
    compared = [units.mean(base + changed.named), *(units.mean(base + x) for x in changed.random)]
    both = [units.mean(changed.named + one) for one in changed.random]
    return int(np.isfinite(np.stack([*compared, *both])).all(axis=0).sum())


def _units(contexts: int, blocks: Sequence[int] | None) -> Units:
    if blocks is None:
        return Units(np.arange(contexts), contexts)
    if len(blocks) != contexts:
        raise ValueError(f"blocks needed one entry for each of {contexts}; came {len(blocks)}")
    names, places = np.unique(np.asarray(blocks), return_inverse=True)
    return Units(places.astype(np.int64), len(names))


def _why_not(comparable: int, sets: int, unit: str) -> str:
    """Why nothing can be said of the heads; empty where something can."""
    if sets == 0:
        return "there are no random heads of the same layers to compare with"
    if comparable < LEAST_UNITS:
        return (
            f"{plural(comparable, unit)} with answers that can be compared, at least "
            f"{LEAST_UNITS} are needed"
        )
    return ""


def _sentence(one: Effect, effects: Sequence[Effect], size: float, where: str) -> str:
    """What was done, what came of it, and beside which random sets."""
    sets = len(one.random)
    random = float(np.mean([each.estimate for each in one.random])) * size
    low, high = one.difference.low * size, one.difference.high * size
    text = (
        f"The named heads {'matter' if one.matters else 'do not matter more than random heads'}: "
        f"{KIND_WORDS.get(one.kind, one.kind)}, they change the error by "
        f"{one.change.estimate * size:+.3g}, {plural(sets, 'set')} of random heads of the same "
        f"layers by {random:+.3g} on average (difference {one.difference.estimate * size:+.3g}, "
        f"interval {low:.3g} to {high:.3g}, over {where}); {_rank_words(one.as_much, sets)}."
    )
    others = [each for each in effects if each is not one]
    agree = [each.kind for each in others if each.matters]
    if one.matters and others:
        named = ", ".join(agree) or "none"
        text += f" Of the other changes these say the same: {named}."
    return text + _lost_words(one)


def _described(effects: Sequence[Effect], size: float) -> str:
    """What the heads do to the error where that cannot be judged; empty where it is undefined."""
    said = [
        f"{one.change.estimate * size:+.3g} ({one.change.low * size:.3g} to "
        f"{one.change.high * size:.3g}) {KIND_WORDS.get(one.kind, one.kind)}"
        for one in effects
        if np.isfinite(one.change).all()
    ]
    if not said:
        return ""
    return f" As description, the error changes by {', '.join(said)}."


def _lost_words(one: Effect) -> str:
    if not one.lost:
        return ""
    return (
        f" With the named heads changed {plural(one.lost, 'answer')} can no longer be read, with "
        f"random ones {one.lost_random:.3g} on average; those are left out."
    )


def _rank_words(as_much: int, sets: int) -> str:
    words = f"{as_much or 'none'} of them {'does' if as_much < 2 else 'do'} as much"
    if as_much == 0 and 1 / (sets + 1) > LEVEL:
        words += f", which random heads would reach 1 time in {sets + 1}"
    return words


def _row_words(row: RowChange | None, name: str) -> str:
    if row is None or not np.isfinite(row.share_before.estimate):
        return ""
    change = row.share_change
    return (
        f" The {name} row's share of the behavioural row goes from "
        f"{row.share_before.estimate:.2f} "
        f"to {row.share_after.estimate:.2f} (change {change.estimate:+.2f}, interval "
        f"{change.low:.2f} to {change.high:.2f})."
    )


def _check(base: Floats, changed: Mapping[str, Changed], targets: Floats) -> None:
    if not changed:
        raise ValueError("needed at least one way of changing heads; came none")
    parts = [("targets", targets)]
    parts += [(f"named ({kind})", one.named) for kind, one in changed.items()]
    parts += [(f"random ({kind})", x) for kind, one in changed.items() for x in one.random]
    for name, part in parts:
        if part.shape != base.shape or part.ndim != 2:
            raise ValueError(
                f"{name} needed the shape {base.shape} (contexts, queries); came {part.shape}"
            )
    if not np.isfinite(targets).all():
        raise ValueError("targets needed finite numbers")
