"""Hypotheses whose step size, penalty or width is chosen on other contexts than it is used on."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bank import Hypothesis, hypothesis_named, predict
from analysis.design import ContextArrays, Floats
from analysis.held_out import FOLDS, Units, units_of

Predictor = Callable[[ContextArrays], Floats]

STEP_SIZES = (0.1, 0.3, 0.5, 0.7, 0.9)
PENALTIES = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WIDTHS = ("1/8", "1/4", "1/3", "1/2", "1", "2", "3")
# The names that are tuned, and what is tried for each.
TUNABLE: dict[str, tuple[str, ...]] = {
    **{
        f"gd({steps})": tuple(f"gd({steps},{eta})" for eta in STEP_SIZES)
        for steps in (1, 4, 16, 64, 256, 1024)
    },
    "ridge": tuple(f"ridge({penalty:g})" for penalty in PENALTIES),
    "kernel": tuple(f"kernel({width})" for width in WIDTHS),
    "laplace": tuple(f"laplace({width})" for width in WIDTHS),
    "local_linear": tuple(f"local_linear({width},0.01)" for width in WIDTHS),
}


class Tuned(NamedTuple):
    """One member of a family for each fold, chosen on the units of the other folds.

    chosen: (F,) names; error: (F, K), mean squared distance of every candidate to the answers on
    the units outside the fold, NaN where there are none; fold_of_context: (C,).
    """

    name: str
    candidates: tuple[Hypothesis, ...]
    chosen: tuple[str, ...]
    error: Floats
    fold_of_context: NDArray[np.int64]

    def predict(self, contexts: ContextArrays) -> Floats:
        """Predictions (C, M), each context by the candidate of its fold; C as it was tuned on."""
        count = len(contexts.x)
        if count != len(self.fold_of_context):
            raise ValueError(
                f"{self.name}: needed the {len(self.fold_of_context)} contexts it was tuned on; "
                f"came {count}"
            )
        made = np.full(contexts.queries.shape[:2], np.nan)
        for one in self.candidates:
            folds = [fold for fold, name in enumerate(self.chosen) if name == one.name]
            used = np.isin(self.fold_of_context, folds)
            if used.any():
                made[used] = predict(one, contexts)[used]
        return made

    def hypothesis(self) -> Hypothesis:
        """The same as a predictor of the bank, to be compared by `analysis.agreement`.

        Paired intervals over contexts, and what they do not tell apart, are then those of every
        hypothesis; only the contexts that it was tuned on can be asked.
        """
        return Hypothesis(
            name=self.name,
            family=self.candidates[0].family,
            statement=f"the nearest of {len(self.candidates)} candidates on other contexts",
            row=None,
            predictor=self.predict,
        )

    def table(self) -> pd.DataFrame:
        """What was chosen for each fold and how near every candidate came on the other folds."""
        folds, kinds = self.error.shape
        return pd.DataFrame(
            {
                "family": self.name,
                "fold": np.repeat(np.arange(folds), kinds),
                "candidate": [one.name for one in self.candidates] * folds,
                "squared_distance": self.error.ravel(),
                "chosen": [one.name == name for name in self.chosen for one in self.candidates],
            }
        )


def tuned(
    name: str,
    candidates: Sequence[Hypothesis],
    contexts: ContextArrays,
    *,
    blocks: Sequence[int] | None = None,
    folds: int = FOLDS,
) -> Tuned:
    """Choose for each fold the candidate nearest to the model's answers on the other folds.

    Units (contexts, or `blocks` of them) go to the folds in turn. Nearness is the mean over units
    of the squared distance to the readable answers; of candidates that tie, the first. Refused
    where fewer than two units have a readable answer: none is left to tune on.
    """
    units = units_of(contexts, blocks)
    apart = np.stack(
        [units.mean((contexts.answers - predict(one, contexts)) ** 2) for one in candidates]
    )
    known = np.asarray(np.isfinite(apart).all(axis=0))
    if known.sum() < 2:
        raise ValueError(
            f"{name}: needed at least 2 units with a readable answer to tune on other units; came "
            f"{int(known.sum())}"
        )
    groups = fold_of_units(units, known, folds)
    error = np.stack(
        [apart[:, known & (groups != fold)].mean(axis=1) for fold in range(groups.max() + 1)]
    )
    return Tuned(
        name=name,
        candidates=tuple(candidates),
        chosen=tuple(candidates[place].name for place in error.argmin(axis=1)),
        error=error,
        fold_of_context=groups[units.of_context],
    )


def fold_of_units(units: Units, known: NDArray[np.bool_], folds: int) -> NDArray[np.int64]:
    """Folds (units,) dealt in turn to the known units, so that each fold has some; others to 0."""
    groups = np.zeros(units.size, dtype=np.int64)
    groups[known] = np.arange(known.sum()) % min(folds, int(known.sum()))
    return groups


def tuned_families(
    contexts: ContextArrays, *, blocks: Sequence[int] | None = None
) -> dict[str, Tuned]:
    """Every family of `TUNABLE`, tuned to the model's answers on other contexts."""
    return {
        f"{name} (tuned)": tuned(
            f"{name} (tuned)", [hypothesis_named(one) for one in names], contexts, blocks=blocks
        )
        for name, names in TUNABLE.items()
    }


def predictors(
    hypotheses: Sequence[Hypothesis], families: Mapping[str, Tuned] | None = None
) -> dict[str, Predictor]:
    """Functions of contexts by name: of every hypothesis, and of families tuned elsewhere."""

    def of(one: Hypothesis) -> Predictor:
        return lambda contexts: predict(one, contexts)

    def of_family(one: Tuned) -> Predictor:
        return lambda contexts: one.predict(contexts)

    made = {one.name: of(one) for one in hypotheses}
    return made | {name: of_family(one) for name, one in (families or {}).items()}
