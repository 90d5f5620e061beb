"""Every measure of every variant under every comparison, with intervals."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from analysis.bootstrap import Intervals
from analysis.inference import UNDEFINED, Interval
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from analysis.similarity.records import Floats
from analysis.similarity.resampling import (
    Paired,
    Resamples,
    first_resamples,
    holm,
    paired_each,
    two_way_intervals,
)
from analysis.similarity.verdict import Judged, rank_p
from hatlens.comparison.beyond import beyond_twin, held
from hatlens.comparison.stored import Stored, is_trained

Result = dict[str, Any]
MISMATCHES = ("other demonstrations", "other query", "other task")
"""Which mismatch stands in the headline: the first of these that a measure has."""
MISMATCH_WORDS = {
    "other demonstrations": "other demonstrations of the task",
    "other query": "the same demonstrations for another query",
    "other task": "lines of another task",
}
DIFFERENCE = "matched minus mismatched"


class Line(NamedTuple):
    """One measure of one variant at one position, under the matched runs and all others.

    mismatch: the condition of the headline, "" without one. found: its matched, mismatched and
    difference. others: the same against every other condition. by_layer: intervals of means over
    sets and queries, arrays (layer,); layers_of: the same of every other condition;
    change_by_layer: of matched minus mismatched, None without a mismatch. undefined, of: how many
    (set, query, layer) values are.
    """

    key: str
    position: str
    mismatch: str
    found: Paired
    others: dict[str, Paired]
    by_layer: Intervals
    layers_of: dict[str, Intervals]
    change_by_layer: Intervals | None
    undefined: int
    of: int


def lines_of(stored: Stored, resamples: Resamples) -> list[Line]:
    """Every measure of a variant."""
    by_measure: dict[tuple[str, str], list[str]] = {}
    for position, condition, key in stored.keys:
        by_measure.setdefault((position, key), []).append(condition)
    return [
        one_line(stored, position, key, conditions, resamples)
        for (position, key), conditions in sorted(
            by_measure.items(), key=lambda item: (item[0][0], list(DESCRIBED).index(item[0][1]))
        )
        if MATCHED in conditions
    ]


def one_line(
    stored: Stored, position: str, key: str, conditions: Sequence[str], resamples: Resamples
) -> Line:
    matched = stored.values((position, MATCHED, key))
    names = [name for name in CONDITIONS if name in conditions and name != MATCHED]
    others = {name: stored.values((position, name, key)) for name in names}
    mismatch = next((name for name in MISMATCHES if name in others), "")
    alone = {} if mismatch else {"": np.full_like(matched, np.nan)}
    sides = {**others, **alone}
    found = {
        name: held(one, matched, sides[name])
        for name, one in paired_each(matched, sides, rng=resamples).items()
    }
    change = {DIFFERENCE: matched - others[mismatch]} if mismatch else {}
    layers = layer_intervals({MATCHED: matched, **others, **change}, resamples)
    return Line(
        key,
        position,
        mismatch,
        found[mismatch],
        {name: found[name] for name in names},
        layers[MATCHED],
        {name: layers[name] for name in names},
        layers.get(DIFFERENCE),
        int(np.isnan(matched).sum()),
        matched.size,
    )


def layer_intervals(values: Mapping[str, Floats], resamples: Resamples) -> dict[str, Intervals]:
    """Intervals of every layer of every (set, query, layer), by name, arrays (layer,)."""
    found = two_way_intervals(
        np.concatenate(list(values.values()), axis=-1), rng=first_resamples(resamples)
    )
    parts = zip(*(np.split(part, len(values)) for part in found), strict=True)
    return {name: Intervals(*part) for name, part in zip(values, parts, strict=True)}


def corrected(lines: Sequence[Line]) -> list[float]:
    """p-values of the headline differences, by Holm over the measures that are evidence."""
    given = [one.found.p if DESCRIBED[one.key].evidence else np.nan for one in lines]
    return holm(given)


def judged(
    stored: Sequence[Stored], lines: Sequence[Line], p: Sequence[float], resamples: Resamples
) -> list[Judged]:
    """The measures of the model that are evidence, beside its twins."""
    model = next(one for one in stored if is_trained(one))
    twins = [one for one in stored if not is_trained(one)]
    return [
        Judged(
            line.key if len({one.position for one in lines}) == 1 else named(line),
            line.found.matched,
            line.found.mismatched,
            line.found.difference,
            p_corrected,
            line.mismatch,
            tuple(
                beyond_twin(model, twin, (line.position, line.mismatch, line.key), resamples)
                if line.mismatch
                else UNDEFINED
                for twin in twins
            ),
        )
        for line, p_corrected in zip(lines, p, strict=True)
        if DESCRIBED[line.key].evidence
    ]


def twin_ranks(line: Line, twins: Mapping[str, Sequence[Sequence[Line]]]) -> dict[str, Result]:
    """For each kind of twin, p of the model's matched minus mismatched among its twins'.

    twins: by kind, the lines of every twin. The p is that of `rank_p`; ``twins`` counts those whose
    difference is defined.
    """
    found = {}
    for kind, every in twins.items():
        theirs = [
            other.found.difference.estimate
            for lines in every
            for other in lines
            if (other.key, other.position, other.mismatch)
            == (line.key, line.position, line.mismatch)
        ]
        known = [value for value in theirs if not math.isnan(value)]
        found[kind] = {"p": rank_p(line.found.difference.estimate, known), "twins": len(known)}
    return found


def named(line: Line) -> str:
    """A measure's key with its position, where both were recorded."""
    return f"{line.key}, {line.position}"


def entry(
    line: Line,
    p_corrected: float | None = None,
    twins: Mapping[str, Sequence[Sequence[Line]]] = MappingProxyType({}),
) -> Result:
    """A line as the result prints it; `twins`: by kind, the lines of every twin of the model."""
    about = DESCRIBED[line.key]
    found: Result = {
        "name": about.name,
        "variant": about.variant,
        "position": line.position,
        "matched": line.found.matched,
        "mismatched": line.found.mismatched,
        "difference": line.found.difference,
        "by_layer": each(line.by_layer),
        "mismatch": line.mismatch,
        "evidence": about.evidence,
        "undefined": {"count": line.undefined, "of": line.of},
    }
    if p_corrected is not None:
        found["p_corrected"] = p_corrected
        if about.evidence:
            found["twin_p"] = twin_ranks(line, twins)
    return found


def condition_entry(line: Line, condition: str) -> Result:
    """The same measure with the runs of another comparison in place of the mismatch."""
    about, found = DESCRIBED[line.key], line.others[condition]
    return {
        "name": about.name,
        "variant": about.variant,
        "position": line.position,
        "matched": found.matched,
        "mismatched": found.mismatched,
        "difference": found.difference,
        "by_layer": each(line.layers_of[condition]),
    }


def each(found: Intervals) -> list[Interval]:
    """One interval a layer."""
    return [found.at(layer) for layer in range(len(found.estimate))]
