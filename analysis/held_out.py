"""Held-out errors of the model's answers and of simple predictors, on the same queries."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.bank import Hypothesis, hypothesis_named, predict
from analysis.design import ContextArrays, Floats
from analysis.inference import Interval, mean_interval

MODEL = "model"
FOLDS = 8
TUNED: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kernel(1/3)", "kernel(1)", "kernel(3)"),
    "ridge": ("ols", "ridge(0.001)", "ridge(0.01)", "ridge(0.1)", "ridge(1)", "ridge(10)"),
}
FIXED: Mapping[str, str] = {"mean": "uniform", "last": "last", "nearest": "nearest(1)"}
RIVALS = (*FIXED, *TUNED)


class Units(NamedTuple):
    """Which resampled unit each context belongs to, (C,), from 0 to `size` - 1."""

    of_context: NDArray[np.int64]
    size: int

    def mean(self, values: Floats) -> Floats:
        """Mean over the queries (C, M) of each unit; NaN values are left out, NaN where all are."""
        known = np.isfinite(values)
        totals = np.zeros(self.size)
        counts = np.zeros(self.size)
        np.add.at(totals, self.of_context, np.where(known, values, 0.0).sum(axis=1))
        np.add.at(counts, self.of_context, known.sum(axis=1))
        return np.where(counts > 0, totals / np.where(counts > 0, counts, 1.0), np.nan)


class HeldOutErrors(NamedTuple):
    """Errors against the queries' own y, by predictor: "model" and each of `RIVALS`.

    absolute, squared: mean error over units (mean over a unit's readable queries), in codec
    coordinates and their square; kernel and ridge are tuned on other units.
    absolute_difference, squared_difference: the model's error minus the rival's on the same
    queries; below 0 where the model is better.
    All with skewness-corrected t intervals over the units that have a readable answer (`units` of
    them); NaN where undefined. `readable` of the `asked` answers could be read; the others are
    left out.
    """

    asked: int
    readable: int
    units: int
    absolute: Mapping[str, Interval]
    squared: Mapping[str, Interval]
    absolute_difference: Mapping[str, Interval]
    squared_difference: Mapping[str, Interval]


def units_of(contexts: ContextArrays, blocks: Sequence[int] | None) -> Units:
    """The resampled units: each context its own, or the blocks that the caller names."""
    count = len(contexts.x)
    if blocks is None:
        return Units(np.arange(count), count)
    if len(blocks) != count:
        raise ValueError(
            f"blocks needed one entry for each of {count} contexts; came {len(blocks)}"
        )
    names, places = np.unique(np.asarray(blocks), return_inverse=True)
    return Units(places.astype(np.int64), len(names))


def checked_targets(contexts: ContextArrays, targets: Floats) -> None:
    """Refuse targets or answers that do not match the queries, and targets that are not finite."""
    shape = contexts.queries.shape[:2]
    for name, values in (("targets", targets), ("answers", contexts.answers)):
        if values.shape != shape:
            raise ValueError(
                f"{name} needed the shape {shape} (contexts, queries); came {values.shape}"
            )
    if not np.isfinite(targets).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(targets))[0])
        raise ValueError(
            f"targets needed finite numbers; came {targets[place]} at (context, query) = {place}"
        )


def tuned_prediction(
    contexts: ContextArrays, targets: Floats, candidates: Sequence[Hypothesis], units: Units
) -> Floats:
    """Each unit's predictions (C, M) by the candidate with least squared error on other folds.

    Units go to min(8, units) folds in turn. NaN where there is one unit, with no other to tune on.
    """
    answers = np.stack([predict(one, contexts) for one in candidates])
    folds = min(FOLDS, units.size)
    if folds < 2:
        return np.full(targets.shape, np.nan)
    errors = np.stack([units.mean((one - targets) ** 2) for one in answers])
    fold_of_unit = np.arange(units.size) % folds
    best = np.array(
        [errors[:, fold_of_unit != fold].mean(axis=1).argmin() for fold in range(folds)]
    )
    chosen = best[fold_of_unit[units.of_context]]
    return np.asarray(answers[chosen, np.arange(len(targets))])


def rival_predictions(contexts: ContextArrays, targets: Floats, units: Units) -> dict[str, Floats]:
    """Predictions (C, M) of mean, last, nearest, and of kernel and ridge tuned on other units."""
    made = {name: predict(hypothesis_named(kind), contexts) for name, kind in FIXED.items()}
    for name, kinds in TUNED.items():
        candidates = [hypothesis_named(kind) for kind in kinds]
        made[name] = tuned_prediction(contexts, targets, candidates, units)
    return made


def held_out_errors(
    contexts: ContextArrays, targets: Floats, *, blocks: Sequence[int] | None = None
) -> HeldOutErrors:
    """Errors of the model's answers and of its rivals; targets (C, M) in codec coordinates.

    blocks: the resampled unit of each context, where contexts are not independent.
    """
    checked_targets(contexts, targets)
    units = units_of(contexts, blocks)
    readable = np.isfinite(contexts.answers)
    predictions = {MODEL: contexts.answers} | rival_predictions(contexts, targets, units)
    missed = {name: np.where(readable, one - targets, np.nan) for name, one in predictions.items()}
    absolute = {name: units.mean(np.abs(one)) for name, one in missed.items()}
    squared = {name: units.mean(one**2) for name, one in missed.items()}
    return HeldOutErrors(
        asked=readable.size,
        readable=int(readable.sum()),
        units=int(np.isfinite(absolute[MODEL]).sum()),
        absolute={name: mean_interval(one) for name, one in absolute.items()},
        squared={name: mean_interval(one) for name, one in squared.items()},
        absolute_difference=differences(absolute),
        squared_difference=differences(squared),
    )


def differences(errors: Mapping[str, Floats]) -> dict[str, Interval]:
    """The model's error minus each rival's, paired by unit."""
    return {name: mean_interval(errors[MODEL] - errors[name]) for name in RIVALS}
