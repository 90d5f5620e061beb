"""What each layer's state says of the answer: a ridge read-out and the logit lens."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.agreement import Agreement
from analysis.bank import hypothesis_named
from analysis.design import ContextArrays, Floats
from analysis.held_out import units_of
from analysis.inference import UNDEFINED, Interval, mean_interval, ratio_interval
from analysis.layer_readout import LEAST_UNITS, ridge_readout, through_depth
from analysis.prediction_agreement_steps import STEPS, BestStep, best_steps_by_layer
from hatlens.stages.stage import Evidence

NAMED = (
    "ols",
    "ridge(0.01)",
    "ridge(0.1)",
    "gd(1)",
    "gd(4)",
    "gd(16)",
    "gd(64)",
    "newton(2)",
    "newton(6)",
    "newton(12)",
    "local_linear(1/3,0.01)",
    "local_linear(1,0.01)",
    "kernel(1/3)",
    "kernel(1)",
    "nearest(1)",
    "nearest(3)",
    "uniform",
    "last",
)
"""The hypotheses that every layer is compared with."""

RIDGE, LENS = "ridge", "lens"


class Layers(NamedTuple):
    """By layer (0: what enters the first one).

    explained: of the model's own final answer, held out for the ridge read-out. agreement: with
    every hypothesis of `NAMED`, nearest first. numeral: probability that a numeral begins, by the
    logit lens. `lens` is missing where the codec's first digit does not tell the number.
    """

    explained: dict[str, tuple[Interval, ...]]
    agreement: dict[str, tuple[tuple[Agreement, ...], ...]]
    steps: tuple[BestStep, ...]
    numeral: tuple[Interval, ...]


def layers_of(
    contexts: ContextArrays,
    evidence: Evidence,
    states: NDArray[np.float32],
    digits: Floats,
    lens: Floats | None,
    *,
    rng: np.random.Generator,
) -> Layers | None:
    """Read-outs of the mean answers from every layer; None with fewer than three units to read."""
    units = units_of(contexts, evidence.blocks)
    values = contexts.answers
    if np.isfinite(units.mean(values)).sum() < LEAST_UNITS:
        return None
    readout = ridge_readout(states, values, rng=rng, blocks=evidence.blocks)
    read = {RIDGE: readout}
    explained = {RIDGE: readout.explained}
    if lens is not None:
        read[LENS] = readout._replace(predictions=lens)
        explained[LENS] = tuple(explained_share(one, values, evidence, contexts) for one in lens)
    hypotheses = [hypothesis_named(name) for name in NAMED]
    targets = evidence.main.targets
    return Layers(
        explained=explained,
        agreement={
            name: through_depth(one, contexts, targets, hypotheses, blocks=evidence.blocks)
            for name, one in read.items()
        },
        steps=tuple(
            step
            for algorithm in STEPS
            for step in best_steps_by_layer(
                contexts, readout.predictions, algorithm, rng=rng, blocks=evidence.blocks
            )
        ),
        numeral=tuple(
            mean_interval(units.mean(one)) for one in np.moveaxis(digits.sum(axis=-1), 2, 0)
        ),
    )


def explained_share(
    said: Floats, values: Floats, evidence: Evidence, contexts: ContextArrays
) -> Interval:
    """1 - squared error over that of the values' mean; below 0 where worse than a constant."""
    units = units_of(contexts, evidence.blocks)
    constant = units.mean((values - np.nanmean(values)) ** 2)
    ratio = ratio_interval(units.mean((said - values) ** 2), constant)
    if not np.isfinite(ratio.estimate):
        return UNDEFINED
    return Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low)
