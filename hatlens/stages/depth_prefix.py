"""What the answers resemble after the first n examples, and by weights and sensitivity."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.agreement import within_variance
from analysis.bank import hypothesis_named, predict
from analysis.design import ContextArrays, Floats
from analysis.held_out import MODEL, units_of
from analysis.inference import UNDEFINED, Interval, mean_interval, ratio_interval
from analysis.prediction_agreement import (
    PredictionAgreement,
    error_similarity,
    prediction_agreement,
)
from analysis.prediction_agreement_steps import STEPS, BestStep, best_step, step_predictions
from analysis.tuning import Predictor, Tuned, predictors, tuned_families
from hatlens.sets import StoredSet
from hatlens.stages.stage import Evidence
from hatlens.tables import SHOWN_PREDICTORS


class PrefixLine(NamedTuple):
    """One predictor after the first `length` examples, on the next example.

    error: mean absolute error, codec units. spd: squared distance to the model's answers over the
    whole context's Var(y); NaN for the model itself.
    """

    length: int
    predictor: str
    error: Interval
    spd: Interval


class Prefixes(NamedTuple):
    """For each length: `contexts`, the first examples asked at the next x; `targets` its y."""

    lengths: tuple[int, ...]
    contexts: tuple[ContextArrays, ...]
    targets: Floats
    lines: tuple[PrefixLine, ...]
    steps: tuple[BestStep, ...]


def prefix_contexts(
    main: StoredSet, lengths: NDArray[np.int64], answers: Floats
) -> tuple[ContextArrays, ...]:
    """The first n examples of every context, with the next x as their only query."""
    return tuple(
        ContextArrays(
            x=main.x[:, :n],
            y=main.y[:, :n],
            queries=main.x[:, n : n + 1],
            x_text=main.x_text[:, :n],
            query_text=main.x_text[:, n : n + 1],
            answers=answers[:, place, None],
        )
        for place, n in enumerate(int(length) for length in lengths)
    )


def prefixes_of(
    main: StoredSet,
    lengths: NDArray[np.int64],
    answers: Floats,
    evidence: Evidence,
    *,
    rng: np.random.Generator,
) -> Prefixes:
    """Errors, distances and best steps at every length; answers (C, K), codec units."""
    contexts = prefix_contexts(main, lengths, answers)
    targets = np.stack([main.y[:, n, None] for n in lengths]) if len(lengths) else np.empty((0,))
    units = units_of(evidence.arrays, evidence.blocks)
    variance = within_variance(evidence.arrays, units)
    lines, steps = [], []
    for place, one in enumerate(contexts):
        length = int(lengths[place])
        made = {name: predict(hypothesis_named(of), one) for name, of in SHOWN_PREDICTORS.items()}
        for name, said in {MODEL: one.answers, **made}.items():
            apart = units.mean((one.answers - said) ** 2)
            missed = np.where(np.isfinite(one.answers), np.abs(said - targets[place]), np.nan)
            spd = UNDEFINED if name == MODEL else ratio_interval(apart, variance)
            lines.append(PrefixLine(length, name, mean_interval(units.mean(missed)), spd))
        steps += [
            best_step(
                algorithm,
                length,
                one.answers,
                step_predictions(one, algorithm),
                variance,
                units,
                rng=rng,
            )
            for algorithm in STEPS
        ]
    return Prefixes(tuple(int(n) for n in lengths), contexts, targets, tuple(lines), tuple(steps))


def measures_of(
    contexts: ContextArrays,
    evidence: Evidence,
    prefixes: Prefixes,
    *,
    slopes: Floats,
    step: float,
) -> tuple[PredictionAgreement, ...]:
    """Weights, sensitivity and errors over prefixes of every hypothesis and tuned family.

    Families are tuned to the whole prompts' answers on other contexts; none where fewer than two
    units have one. slopes: (C, M, P), codec units.
    """
    asked = predictors(evidence.hypotheses, families_of(contexts, evidence.blocks))
    lines = prediction_agreement(
        contexts, asked, model_sensitivity=slopes, step=step, blocks=evidence.blocks
    )
    if not prefixes.lengths:
        return lines
    return with_sim_e(lines, asked, prefixes, contexts, evidence.blocks)


def families_of(contexts: ContextArrays, blocks: Sequence[int]) -> Mapping[str, Tuned] | None:
    """Tuned families, None where there is nothing to tune on."""
    units = units_of(contexts, blocks)
    if np.isfinite(units.mean(contexts.answers)).sum() < 2:
        return None
    return tuned_families(contexts, blocks=blocks)


def with_sim_e(
    lines: Sequence[PredictionAgreement],
    asked: Mapping[str, Predictor],
    prefixes: Prefixes,
    contexts: ContextArrays,
    blocks: Sequence[int],
) -> tuple[PredictionAgreement, ...]:
    """The same lines with the cosine of errors over prefixes, each on the next example's own y."""
    units = units_of(contexts, blocks)
    model = np.stack([one.answers for one in prefixes.contexts])
    return tuple(
        line._replace(
            sim_e=error_similarity(
                model,
                np.stack([asked[line.hypothesis](one) for one in prefixes.contexts]),
                prefixes.targets,
                units,
            )
        )
        for line in lines
    )
