"""What each layer's state knows of a number: ridge read-outs fitted on other contexts.

Source: read-outs by layer in in-context regression, arXiv 2211.15661 (section 5) and 2310.17086.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.agreement import Agreement, agreement
from analysis.bank import Hypothesis
from analysis.design import ContextArrays, Floats
from analysis.folds import Indices, assign_folds
from analysis.held_out import Units
from analysis.inference import Interval, ratio_interval
from analysis.ridge import fit_ridge
from analysis.threads import one_blas_thread

PENALTIES = tuple(float(p) for p in 10.0 ** np.arange(-4, 2.5, 0.5))
LEAST_UNITS = 3


class RidgeReadout(NamedTuple):
    """Numbers read off each layer's state by ridge regression, never on a context's own fit.

    predictions: (L, C, M), each context's by the fit that left its fold out. explained: by layer,
    1 - squared error over that of the mean of the fit's values, with its interval over units;
    below 0 where a layer predicts worse than a constant. fold: (C,). penalty: (F, L), as a share
    of the mean eigenvalue, chosen on folds of the fit's own units. coefficient: (F, L, d) and
    intercept: (F, L), in the units of the states. All are NaN for a fold without which there is no
    value. units: how many are resampled; unread: values left out.
    """

    predictions: Floats
    explained: tuple[Interval, ...]
    fold: Indices
    penalty: Floats
    coefficient: Floats
    intercept: Floats
    units: int
    unread: int

    def direction(self, context: int, layer: int = -1) -> Floats:
        """The read-out direction (d,) of a layer that was fitted without this context."""
        found: Floats = self.coefficient[self.fold[context], layer]
        return found


def ridge_readout(
    states: NDArray[np.floating],
    values: Floats,
    *,
    rng: np.random.Generator,
    folds: int = 5,
    inner: int = 4,
    penalties: Sequence[float] = PENALTIES,
    blocks: Sequence[int] | None = None,
) -> RidgeReadout:
    """Read values off the states of every layer, each context by a fit to other contexts.

    states: (C, M, L, d), float; values: (C, M), the model's own answers or any other number, NaN
    where there is none (left out of the fits, still predicted). Columns are scaled to unit sd
    within a fit. The penalty of each fit is the one with the least squared error over `inner`
    folds of its own contexts, of equals the largest. blocks: contexts that share rows stay
    together. Refuses fewer than three units with values, and unlike shapes.
    """
    units = _checked(states, values, blocks)
    fold = assign_folds(units.size, folds, rng=rng)[units.of_context]
    shape = int(fold.max()) + 1, states.shape[2]
    predictions, constant = np.full((shape[1], *values.shape), np.nan), np.full_like(values, np.nan)
    penalty, intercept = np.full(shape, np.nan), np.full(shape, np.nan)
    coefficient = np.full((*shape, states.shape[3]), np.nan)
    for f in range(shape[0]):
        others, own = fold != f, fold == f
        if not np.isfinite(values[others]).any():
            continue
        constant[own] = np.nanmean(values[others])
        groups = _groups(units.of_context[others], inner, rng)
        with one_blas_thread():
            for layer in range(shape[1]):
                x = np.asarray(states[:, :, layer], dtype=np.float64)
                chosen = best_penalty(x[others], values[others], groups, penalties)
                line, start = fit_ridge(*_flat(x[others], values[others])).line(chosen)
                penalty[f, layer], coefficient[f, layer], intercept[f, layer] = chosen, line, start
                predictions[layer, own] = x[own] @ line + start
    return RidgeReadout(
        predictions=predictions,
        explained=tuple(_explained(one, constant, values, units) for one in predictions),
        fold=fold,
        penalty=penalty,
        coefficient=coefficient,
        intercept=intercept,
        units=units.size,
        unread=int(np.isnan(values).sum()),
    )


def _groups(units: Indices, inner: int, rng: np.random.Generator) -> Indices:
    """An inner fold for each context, contexts of one unit together."""
    known, places = np.unique(units, return_inverse=True)
    return assign_folds(len(known), inner, rng=rng)[places]


def best_penalty(x: Floats, values: Floats, groups: Indices, penalties: Sequence[float]) -> float:
    """The penalty with least squared error on contexts (C, M, d) left out in turn by group."""
    asked = np.array(sorted(penalties))
    errors = np.zeros(len(asked))
    for group in np.unique(groups):
        inside, outside = groups == group, groups != group
        if not np.isfinite(values[outside]).any():
            continue
        fit = fit_ridge(*_flat(x[outside], values[outside]))
        held, truth = _flat(x[inside], values[inside])
        errors += ((fit.predict(held, asked) - truth) ** 2).sum(axis=1)
    return float(asked[np.flatnonzero(errors <= errors.min() * (1 + 1e-12))[-1]])


def through_depth(
    readout: RidgeReadout,
    contexts: ContextArrays,
    targets: Floats,
    hypotheses: Sequence[Hypothesis],
    *,
    blocks: Sequence[int] | None = None,
) -> tuple[tuple[Agreement, ...], ...]:
    """The agreement of each layer's read-out with every hypothesis, layer by layer."""
    return tuple(
        agreement(contexts._replace(answers=one), targets, hypotheses, blocks=blocks)
        for one in readout.predictions
    )


def _flat(x: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Observations (n, d) and their values (n,), those without a value left out."""
    known = np.isfinite(values)
    return x[known], values[known]


def _explained(predicted: Floats, constant: Floats, values: Floats, units: Units) -> Interval:
    missed = units.mean((predicted - values) ** 2)
    ratio = ratio_interval(missed, units.mean((constant - values) ** 2))
    return Interval(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low)


def _checked(states: NDArray[np.floating], values: Floats, blocks: Sequence[int] | None) -> Units:
    if states.ndim != 4 or states.shape[:2] != values.shape:
        raise ValueError(
            f"states needed the shape (contexts, queries, layers, dim) for values of the shape "
            f"{values.shape}; came {states.shape}"
        )
    names = np.arange(len(values)) if blocks is None else np.asarray(blocks)
    if len(names) != len(values):
        raise ValueError(f"blocks needed one entry for each of {len(values)}; came {len(names)}")
    if not np.isfinite(states).all():
        raise ValueError("states needed finite numbers")
    known, places = np.unique(names, return_inverse=True)
    units = Units(places.astype(np.int64), len(known))
    with_values = int(np.isfinite(units.mean(values)).sum())
    if with_values < LEAST_UNITS:
        raise ValueError(
            f"a read-out needed at least {LEAST_UNITS} contexts with a value; came {with_values}"
        )
    return units
