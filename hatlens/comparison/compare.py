"""Every measure of every variant under every comparison, with intervals."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.inference import UNDEFINED, Interval
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.measures import DESCRIBED
from analysis.similarity.records import Floats
from analysis.similarity.resampling import Paired, Resamples, holm, over_layers, paired
from analysis.similarity.verdict import Judged
from hatlens.comparison.stored import Stored, is_trained

MISMATCHES = ("other demonstrations", "other query", "other task")
"""Which mismatch stands in the headline: the first of these that a measure has."""
MISMATCH_WORDS = {
    "other demonstrations": "other demonstrations of the task",
    "other query": "the same demonstrations for another query",
    "other task": "lines of another task",
}


class Line(NamedTuple):
    """One measure of one variant at one position, under the matched runs and all others.

    mismatch: the condition of the headline, "" without one. found: its matched, mismatched and
    difference. others: the same against every other condition. by_layer, mismatched_by_layer:
    means over sets and queries (layer,). undefined, of: how many (set, query, layer) values are.
    """

    key: str
    position: str
    mismatch: str
    found: Paired
    others: dict[str, Paired]
    by_layer: Floats
    layers_of: dict[str, Floats]
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
    others, layers = {}, {}
    for condition in [name for name in CONDITIONS if name in conditions and name != MATCHED]:
        values = stored.values((position, condition, key))
        others[condition] = paired(matched, values, rng=resamples)
        layers[condition] = mean_by_layer(values)
    mismatch = next((name for name in MISMATCHES if name in others), "")
    alone = paired(matched, np.full_like(matched, np.nan), rng=resamples)
    return Line(
        key,
        position,
        mismatch,
        others.get(mismatch, alone),
        others,
        mean_by_layer(matched),
        layers,
        int(np.isnan(matched).sum()),
        matched.size,
    )


def mean_by_layer(values: Floats) -> Floats:
    """Mean over sets and queries of the values that are defined, (layer,)."""
    return over_layers(np.moveaxis(values, -1, 0).reshape(values.shape[-1], -1))


def corrected(lines: Sequence[Line]) -> list[float]:
    """p-values of the headline differences, by Holm over the measures that are evidence."""
    given = [one.found.p if DESCRIBED[one.key].evidence else np.nan for one in lines]
    return holm(given)


def beyond_twin(model: Stored, twin: Stored, line: Line, resamples: Resamples) -> Interval:
    """The model's matched minus mismatched, minus the twin's; over the sets that both have."""
    if not line.mismatch:
        return UNDEFINED
    keys = [(line.position, name, line.key) for name in (MATCHED, line.mismatch)]
    if any(key not in twin.keys for key in keys) or twin.sets != model.sets:
        return UNDEFINED
    changes = [one.values(keys[0]) - one.values(keys[1]) for one in (model, twin)]
    return paired(changes[0], changes[1], rng=resamples).difference


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
            tuple(beyond_twin(model, twin, line, resamples) for twin in twins),
        )
        for line, p_corrected in zip(lines, p, strict=True)
        if DESCRIBED[line.key].evidence
    ]


def named(line: Line) -> str:
    """A measure's key with its position, where both were recorded."""
    return f"{line.key}, {line.position}"


def entry(line: Line, p_corrected: float | None = None) -> dict[str, Any]:
    """A line as the result prints it."""
    about = DESCRIBED[line.key]
    found = {
        "name": about.name,
        "variant": about.variant,
        "position": line.position,
        "matched": line.found.matched,
        "mismatched": line.found.mismatched,
        "difference": line.found.difference,
        "by_layer": line.by_layer,
        "mismatch": line.mismatch,
        "evidence": about.evidence,
        "undefined": {"count": line.undefined, "of": line.of},
    }
    if p_corrected is not None:
        found["p_corrected"] = p_corrected
    return found


def condition_entry(line: Line, condition: str) -> dict[str, Any]:
    """The same measure with the runs of another comparison in place of the mismatch."""
    about, found = DESCRIBED[line.key], line.others[condition]
    return {
        "name": about.name,
        "variant": about.variant,
        "position": line.position,
        "matched": found.matched,
        "mismatched": found.mismatched,
        "difference": found.difference,
        "by_layer": line.layers_of[condition],
    }
