"""How a predictor's answers agree with a hypothesis' in weights, sensitivity and errors."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.bank.online import with_intercept
from analysis.design import ContextArrays, Floats
from analysis.held_out import Units, units_of
from analysis.inference import UNDEFINED, Interval, mean_interval, ratio_interval

Predictor = Callable[[ContextArrays], Floats]

SOURCES: Mapping[str, str] = {
    "ilwd": "2211.15661, section 4 (implicit linear weight difference)",
    "sensitivity_cosine": "2212.07677, section 3 (model cosine)",
    "sensitivity_l2": "2212.07677, section 3 (model difference)",
    "sim_e": "2310.17086 (similarity of errors)",
    "sim_w": "2310.17086 (similarity of induced weights)",
}
# A direction that the queries span less than this, beside their largest, gives no weight.
RANK = 1e-8


class Measured(NamedTuple):
    """One measure of agreement: its interval over units, and cells without a value of all cells."""

    interval: Interval
    undefined: int
    cells: int


class PredictionAgreement(NamedTuple):
    """One hypothesis beside the model by other measures than SPD; None where one was not asked.

    ilwd: E |w_f - w_g|^2, weights implied by answers, codec units; 0 is the same. ilwd_share: the
    same over E |w_f|^2 of the model. sensitivity_cosine: E cos of d yhat / d q, 1 is the same
    direction. sensitivity_l2: E |difference of the two|, codec y per codec x. sim_e: E cos of
    error vectors over prefixes. sim_w: E cos of implied weights.
    """

    hypothesis: str
    ilwd: Measured
    ilwd_share: Measured
    sim_w: Measured
    sensitivity_cosine: Measured | None
    sensitivity_l2: Measured | None
    sim_e: Measured | None


def implied_weights(queries: Floats, answers: Floats) -> Floats:
    """Slopes of the least-squares fit of a predictor's answers on a context's queries, (C, P).

    queries: (C, M, P), answers: (C, M). An intercept is fitted and left out, as the printed y
    has one (the paper's data have none). NaN where the readable queries do not span intercept and
    slopes.
    """
    design = with_intercept(queries)
    features = queries.shape[2]
    weights = np.full((len(queries), features), np.nan)
    for context, (rows, said) in enumerate(zip(design, answers, strict=True)):
        known = np.isfinite(said)
        if known.sum() <= features or np.linalg.matrix_rank(rows[known], tol=None) <= features:
            continue
        fitted = np.linalg.lstsq(rows[known], said[known], rcond=RANK)[0]
        weights[context] = fitted[1:]
    return weights


def sensitivity(answer: Predictor, contexts: ContextArrays, *, step: float) -> Floats:
    """d yhat / d q of a predictor by central differences of that step, (C, M, P), codec units.

    Each feature of a query is moved alone; the numerals are not, so that a lexical hypothesis has
    sensitivity 0.
    """
    if not step > 0:
        raise ValueError(f"step of the query: needed a number above 0; came {step!r}")
    parts = []
    for feature in range(contexts.queries.shape[2]):
        moved = np.zeros(contexts.queries.shape[2])
        moved[feature] = step
        up, down = (
            answer(contexts._replace(queries=contexts.queries + side * moved)) for side in (1, -1)
        )
        parts.append((up - down) / (2 * step))
    return np.stack(parts, axis=2)


def cosine(one: Floats, other: Floats) -> Floats:
    """Cosine along the last axis; NaN where either is 0 or not known."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    usable = np.isfinite(lengths) & (lengths > 0)
    product = np.where(usable, (one * other).sum(axis=-1), np.nan)
    return np.asarray(product / np.where(usable, lengths, 1.0))


def measured(values: Floats, units: Units) -> Measured:
    """The mean over units of values (C,) or (C, M), NaN left out and counted."""
    cells = values.reshape(len(values), -1)
    return Measured(
        mean_interval(units.mean(cells)), int((~np.isfinite(cells)).sum()), int(cells.size)
    )


def weight_difference(model: Floats, other: Floats, units: Units) -> tuple[Measured, Measured]:
    """E |w_f - w_g|^2 of weights (C, P), and its share of E |w_f|^2, f the model."""
    apart = ((model - other) ** 2).sum(axis=-1)
    own = np.where(np.isfinite(apart), (model**2).sum(axis=-1), np.nan)
    plain = measured(apart, units)
    known = units.mean(own[:, None])
    share = (
        ratio_interval(units.mean(apart[:, None]), known) if np.isfinite(known).any() else UNDEFINED
    )
    return plain, plain._replace(interval=share)


def prefixed(contexts: ContextArrays, length: int) -> ContextArrays:
    """The same contexts with their first `length` examples."""
    examples = contexts.x.shape[1]
    if not 1 <= length <= examples:
        raise ValueError(f"prefix length: needed 1 to {examples} examples; came {length!r}")
    return contexts._replace(
        x=contexts.x[:, :length], y=contexts.y[:, :length], x_text=contexts.x_text[:, :length]
    )


def along_prefixes(answer: Predictor, contexts: ContextArrays, lengths: Sequence[int]) -> Floats:
    """A predictor's answers from the first n examples alone, (K, C, M)."""
    return np.stack([answer(prefixed(contexts, length)) for length in lengths])


def error_similarity(model: Floats, other: Floats, targets: Floats, units: Units) -> Measured:
    """E cos of the two vectors of errors over prefixes; answers (K, C, M), targets (C, M).

    One vector of K errors for each query; NaN where an answer of it could not be read.
    """
    errors = [np.moveaxis(one - targets, 0, -1) for one in (model, other)]
    return measured(cosine(*errors), units)


def prediction_agreement(
    contexts: ContextArrays,
    predictors: Mapping[str, Predictor],
    *,
    model_sensitivity: Floats | None = None,
    step: float | None = None,
    prefix_answers: Floats | None = None,
    lengths: Sequence[int] = (),
    targets: Floats | None = None,
    blocks: Sequence[int] | None = None,
) -> tuple[PredictionAgreement, ...]:
    """Every predictor beside the model's answers (`contexts.answers`), in the order given.

    predictors: by name, `analysis.tuning.predictors`. model_sensitivity: (C, M, P), the model's own
    d yhat / d q in codec units, measured with the step `step`. prefix_answers: (K, C, M), its
    answers after the first `lengths` examples, compared with `targets` (C, M). Intervals are over
    contexts, or `blocks`.
    """
    units = units_of(contexts, blocks)
    weights = implied_weights(contexts.queries, contexts.answers)
    lines = []
    for name, answer in predictors.items():
        said = np.where(np.isfinite(contexts.answers), answer(contexts), np.nan)
        implied = implied_weights(contexts.queries, said)
        plain, share = weight_difference(weights, implied, units)
        cosines, lengths_apart, errors = None, None, None
        if model_sensitivity is not None and step is not None:
            own = sensitivity(answer, contexts, step=step)
            cosines = measured(cosine(model_sensitivity, own), units)
            lengths_apart = measured(np.linalg.norm(model_sensitivity - own, axis=2), units)
        if prefix_answers is not None and targets is not None:
            along = along_prefixes(answer, contexts, lengths)
            errors = error_similarity(prefix_answers, along, targets, units)
        lines.append(
            PredictionAgreement(
                hypothesis=name,
                ilwd=plain,
                ilwd_share=share,
                sim_w=measured(cosine(weights, implied), units),
                sensitivity_cosine=cosines,
                sensitivity_l2=lengths_apart,
                sim_e=errors,
            )
        )
    return tuple(lines)


def agreement_frame(lines: Sequence[PredictionAgreement]) -> pd.DataFrame:
    """One row for each hypothesis and measure: interval, undefined cells, source."""
    rows = []
    for line in lines:
        for measure in PredictionAgreement._fields[1:]:
            found = getattr(line, measure)
            if found is not None:
                rows.append(
                    {
                        "hypothesis": line.hypothesis,
                        "measure": measure,
                        **found.interval._asdict(),
                        "undefined": found.undefined,
                        "cells": found.cells,
                        "source": SOURCES[measure.removesuffix("_share")],
                    }
                )
    return pd.DataFrame(rows)
