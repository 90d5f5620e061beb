"""The rules applied to the tested rows, and to the best row of each hypothesis."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.assembly import RIVAL_FAMILIES, S_INVERSE
from analysis.assessable import LEVEL
from analysis.bootstrap import Intervals, ratio_intervals, undefined
from analysis.cross_estimates import best_row, cross_estimate
from analysis.design import Floats, Texts
from analysis.families import LEAST_ALONE, lead_over_rivals
from analysis.flips import corrected_p, max_t_null, t_statistic
from analysis.folds import (
    Comparison,
    compare,
    held_out_error,
    log_ratio,
    unique_over_explained,
)
from analysis.inference import Interval
from analysis.inversion import inversion_intervals
from analysis.pairs import PairsTest
from analysis.reproducible import share_of_reproducible, unique_weights
from analysis.row_result import NOT_ASSESSABLE, Chosen, verdict_on_row
from analysis.row_study import Study
from analysis.spike import LEAST_UNIQUE


class Contained(NamedTuple):
    """The rule "contains" on the tested rows, (rows, hypotheses).

    null: the largest t over rows and hypotheses under each sign vector; coefficient: (folds,
    rows, hypotheses).
    """

    compared: list[Comparison]
    t: Floats
    p: Floats
    null: Floats
    coefficient: Floats
    contains: NDArray[np.bool_]


class Judged(NamedTuple):
    """All rules on the tested rows, (rows, hypotheses)."""

    contained: Contained
    unique: Intervals
    of_variance: Intervals
    explained: Floats
    alone: Intervals
    lead: Floats
    nearest: Texts
    follows: NDArray[np.bool_]

    @property
    def contains(self) -> NDArray[np.bool_]:
        """The rule "contains"."""
        return self.contained.contains


def stacked(parts: list[Intervals]) -> Intervals:
    """One column for each hypothesis."""
    return Intervals(*(np.stack(bound, axis=-1) for bound in zip(*parts, strict=True)))


def comparisons(study: Study) -> list[Comparison]:
    """The held-out comparison of every hypothesis."""
    return [
        compare(study.data, study.columns.against(h.family), int(column))
        for h, column in zip(study.hypotheses, study.columns.hypotheses, strict=True)
    ]


def contained(study: Study) -> Contained:
    """Corrected p at most .05, coefficient above 0 in every fold, unique over explained >= .1."""
    compared = comparisons(study)
    ratios = np.stack([log_ratio(one) for one in compared], axis=-1)
    t = t_statistic(ratios)
    null = max_t_null(ratios, study.signs)
    p = corrected_p(t, null)
    coefficient = np.stack([one.coefficient for one in compared], axis=-1)
    sums = [[part.sum(axis=0) for part in one[:3]] for one in compared]
    unique = np.stack([unique_over_explained(*one) for one in sums], axis=-1)
    contains = (p <= LEVEL) & (coefficient > 0).all(axis=0) & (unique >= LEAST_UNIQUE)
    return Contained(compared, t, p, null, coefficient, np.asarray(contains))


def judge(study: Study, pairs: PairsTest | None) -> Judged:
    """Apply the rules "contains" and "follows" to every tested row."""
    found = contained(study)
    total = study.moments.total
    unique = stacked(
        [
            ratio_intervals(one.without - one.with_column, total - one.with_column, study.counts)
            for one in found.compared
        ]
    )
    of_variance = stacked(
        [
            ratio_intervals(one.without - one.with_column, total, study.counts)
            for one in found.compared
        ]
    )
    explained = [1.0 - one.with_column.sum(axis=0) / total.sum(axis=0) for one in found.compared]
    alone = stacked([_alone(study, int(column)) for column in study.columns.hypotheses])
    lead, nearest = _leads(study)
    agrees = np.zeros_like(found.contains) if pairs is None else pairs.agrees[study.rows.tested]
    follows = found.contains & (lead > 0) & (alone.estimate > LEAST_ALONE) & agrees
    return Judged(
        contained=found,
        unique=unique,
        of_variance=of_variance,
        explained=np.stack(explained, axis=-1),
        alone=alone,
        lead=lead,
        nearest=nearest,
        follows=np.asarray(follows),
    )


def _alone(study: Study, column: int) -> Intervals:
    error = held_out_error(study.data, [column])
    return ratio_intervals(study.moments.total - error, study.moments.total, study.counts)


def _leads(study: Study) -> tuple[Floats, Texts]:
    rows, kinds = study.moments.total.shape[1], len(study.hypotheses)
    lead, nearest = np.full((rows, kinds), np.nan), np.full((rows, kinds), "", dtype="<U20")
    for h, column in enumerate(study.columns.hypotheses):
        if study.hypotheses[h].family != S_INVERSE:
            continue
        lead[:, h], place = lead_over_rivals(study.data, study.columns, int(column), study.counts)
        nearest[:, h] = np.array(RIVAL_FAMILIES)[place]
    return lead, nearest


def index_of_rows(study: Study) -> Intervals:
    """The inversion index of every tested row."""
    columns = study.columns
    return inversion_intervals(
        study.moments,
        columns.directions,
        columns.family("positional", "lexical"),
        columns.direction_sd,
        study.counts,
    )


def reproducible_shares(study: Study) -> Intervals:
    """Share of the reproducible part that only each hypothesis explains, (rows, hypotheses)."""
    if study.shared is None:
        return undefined(study.moments.total.shape[1], len(study.hypotheses))
    found = []
    for h, column in zip(study.hypotheses, study.columns.hypotheses, strict=True):
        weights = unique_weights(study.moments, study.columns.against(h.family), int(column))
        found.append(
            share_of_reproducible(study.moments, study.shared, weights, study.shared_counts)
        )
    return stacked(found)


def texts(study: Study, judged: Judged, index: Intervals, *, reason: str, gate: bool) -> Texts:
    """What the rules conclude on every row, tested or not, (R, H)."""
    said = np.full((len(study.rows.blind), len(study.hypotheses)), "", dtype="<U80")
    said[study.rows.blind] = "does not see the query"
    said[study.rows.outside] = "not finite on every example"
    for place, row in enumerate(study.rows.tested):
        for h, hypothesis in enumerate(study.hypotheses):
            said[row, h] = reason or verdict_on_row(
                name=hypothesis.name,
                family=hypothesis.family,
                contains=bool(judged.contains[place, h]),
                follows=bool(judged.follows[place, h]),
                identifies=gate,
                index=index.at(place),
            )
    return said


def choose(study: Study, judged: Judged, *, reason: str, gate: bool) -> tuple[Chosen, ...]:
    """The best row of each hypothesis (follows, else contains, else any) with its effects."""
    nothing = Interval(np.nan, np.nan, np.nan)
    found = []
    for h, hypothesis in enumerate(study.hypotheses):
        if study.moments.total.shape[1] == 0:
            effects = Effects((-1, -1), nothing, nothing, nothing, nothing)
            found.append(Chosen(hypothesis.name, -1, *effects, NOT_ASSESSABLE))
            continue
        named = np.stack([judged.follows[:, h], judged.contains[:, h]])
        best = best_row(judged.contained.t[:, h], *named)
        compared = judged.contained.compared[h]
        effects = _effects(study, compared, h)
        says = reason or verdict_on_row(
            name=hypothesis.name,
            family=hypothesis.family,
            contains=bool(judged.contains[best, h]),
            follows=bool(judged.follows[best, h]),
            identifies=gate,
            index=effects.inversion_index,
        )
        row = int(study.rows.tested[best])
        found.append(Chosen(hypothesis.name, row, *effects, says))
    return tuple(found)


class Effects(NamedTuple):
    """The cross-estimated effects of one hypothesis, in the order in which `Chosen` holds them."""

    rows_of_halves: tuple[int, int]
    unique_over_explained: Interval
    unique_of_variance: Interval
    share_of_reproducible: Interval
    inversion_index: Interval


def _effects(study: Study, compared: Comparison, h: int) -> Effects:
    nothing = Interval(np.nan, np.nan, np.nan)
    columns, column = study.columns, int(study.columns.hypotheses[h])
    against = columns.against(study.hypotheses[h].family)
    crossed = cross_estimate(study.data, compared, study.shared, against, column, study.counts)
    if crossed is None:
        return Effects((-1, -1), nothing, nothing, nothing, nothing)
    index = inversion_intervals(
        crossed.moments,
        columns.directions,
        columns.family("positional", "lexical"),
        columns.direction_sd,
        study.counts,
    )
    share = undefined(1)
    if crossed.shared is not None:
        weights = unique_weights(study.moments, against, column)
        share = share_of_reproducible(crossed.moments, crossed.shared, weights, study.shared_counts)
    first, second = (int(study.rows.tested[row]) for row in crossed.rows)
    return Effects(
        rows_of_halves=(first, second),
        unique_over_explained=crossed.unique_over_explained.at(0),
        unique_of_variance=crossed.unique_of_variance.at(0),
        share_of_reproducible=share.at(0),
        inversion_index=index.at(0),
    )
