"""Which number of gradient or Newton steps answers most like the model, by prefix or by layer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.agreement import within_variance
from analysis.bank import hypothesis_named, predict
from analysis.design import ContextArrays, Floats
from analysis.held_out import FOLDS, Units, units_of
from analysis.inference import Interval, ratio_interval
from analysis.prediction_agreement import prefixed
from analysis.tuning import fold_of_units

SOURCE = "2310.17086 (best matching steps); by squared distance where they use SimE"
STEPS = {
    "gd": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "newton": tuple(range(21)),
}
RESAMPLES = 1000


class BestStep(NamedTuple):
    """The step of one algorithm whose predictions lie nearest to one set of answers.

    place: the layer or the prefix length. steps: nearest over all units, with percentiles of
    bootstrap resamples of units. spd: squared distance over Var(y) of the step that the other folds
    choose, held out. at_edge: whether it is the first or last of the steps tried, so that more
    could lie beyond. used: units with a readable answer, of `units`. NaN where none has one.
    """

    algorithm: str
    place: int
    steps: Interval
    spd: Interval
    at_edge: bool
    used: int
    units: int


def best_steps_by_layer(
    contexts: ContextArrays,
    answers: Floats,
    algorithm: str,
    *,
    rng: np.random.Generator,
    blocks: Sequence[int] | None = None,
) -> tuple[BestStep, ...]:
    """One `BestStep` for each layer; answers (L, C, M), read out after each layer, codec units."""
    units = units_of(contexts, blocks)
    made = step_predictions(contexts, algorithm)
    variance = within_variance(contexts, units)
    return tuple(
        best_step(algorithm, layer, one, made, variance, units, rng=rng)
        for layer, one in enumerate(answers)
    )


def best_steps_by_prefix(
    contexts: ContextArrays,
    answers: Floats,
    lengths: Sequence[int],
    algorithm: str,
    *,
    rng: np.random.Generator,
    blocks: Sequence[int] | None = None,
) -> tuple[BestStep, ...]:
    """One `BestStep` for each prefix; answers (K, C, M) after the first `lengths` examples.

    The steps are those on the prefix alone; the distance is a share of the whole context's Var(y).
    """
    units = units_of(contexts, blocks)
    variance = within_variance(contexts, units)
    return tuple(
        best_step(
            algorithm,
            length,
            one,
            step_predictions(prefixed(contexts, length), algorithm),
            variance,
            units,
            rng=rng,
        )
        for length, one in zip(lengths, answers, strict=True)
    )


def step_predictions(contexts: ContextArrays, algorithm: str) -> Floats:
    """Predictions (K, C, M) after each number of steps in `STEPS`."""
    if algorithm not in STEPS:
        raise ValueError(f"algorithm: needed one of {', '.join(STEPS)}; came {algorithm!r}")
    names = [f"{algorithm}({steps})" for steps in STEPS[algorithm]]
    return np.stack([predict(hypothesis_named(name), contexts) for name in names])


def best_step(
    algorithm: str,
    place: int,
    answers: Floats,
    made: Floats,
    variance: Floats,
    units: Units,
    *,
    rng: np.random.Generator,
) -> BestStep:
    """The nearest of the predictions (K, C, M) to the answers (C, M); see `BestStep`."""
    tried = np.array(STEPS[algorithm], dtype=np.float64)
    apart = np.stack([units.mean((answers - one) ** 2) for one in made])
    known = np.asarray(np.isfinite(apart).all(axis=0))
    used = int(known.sum())
    undefined = Interval(np.nan, np.nan, np.nan)
    if used < 2:
        return BestStep(algorithm, place, undefined, undefined, False, used, units.size)
    best = int(apart[:, known].mean(axis=1).argmin())
    drawn = rng.multinomial(used, np.full(used, 1 / used), size=RESAMPLES)
    again = tried[(drawn @ apart[:, known].T).argmin(axis=1)]
    low, high = np.percentile(again, (2.5, 97.5), method="nearest")
    folds = fold_of_units(units, known, FOLDS)
    held_out = np.full(units.size, np.nan)
    for fold in range(folds.max() + 1):
        chosen = apart[:, known & (folds != fold)].mean(axis=1).argmin()
        held_out = np.where(known & (folds == fold), apart[chosen], held_out)
    return BestStep(
        algorithm=algorithm,
        place=place,
        steps=Interval(tried[best], min(float(low), tried[best]), max(float(high), tried[best])),
        spd=ratio_interval(held_out, variance),
        at_edge=best in (0, len(tried) - 1),
        used=used,
        units=units.size,
    )


def steps_frame(found: Sequence[BestStep]) -> pd.DataFrame:
    """One row for each place, ready for a figure."""
    return pd.DataFrame(
        [
            {
                "algorithm": one.algorithm,
                "place": one.place,
                "steps": one.steps.estimate,
                "steps_low": one.steps.low,
                "steps_high": one.steps.high,
                "spd": one.spd.estimate,
                "spd_low": one.spd.low,
                "spd_high": one.spd.high,
                "at_edge": one.at_edge,
                "used": one.used,
                "units": one.units,
                "source": SOURCE,
            }
            for one in found
        ]
    )
