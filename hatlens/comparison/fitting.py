"""Fine-tunings of a set: at the chosen rate, and at the rate that gives an equal update norm."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from analysis.similarity.records import Floats, Runs
from analysis.similarity.updates import relative_norm_ft
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import Lessons
from probes.finetune import fine_tune
from probes.finetune_recipe import Batch, Diverged
from probes.finetune_result import FineTuned
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.tokens import TaskPrompts

CLOSE = 0.1
"""Update norms within 10 % of each other count as equal."""
MOST_NORM = 1000.0
"""An update so many times as long as what it moves is no learning, whatever the loss says: norms
inside a model can hide weights that ran away."""
TRIES = 6
STEP = 100.0
"""The most by which a rate is changed at once."""
STEEPNESS = (0.25, 4.0)
"""How a norm may depend on a rate: as its power, within these bounds."""


class Fit(NamedTuple):
    """A fine-tuning. `tuned` is None where it diverged, and `failed` says how. `norms` (layer,):
    |h_FT - h_ZSL| / |h_ZSL|, mean over the queries asked; `norm`: their mean over layers.
    """

    tuned: FineTuned | None
    rate: float
    norms: Floats
    norm: float
    failed: str = ""


def learn(
    config: SimilarityConfig,
    loaded: LoadedModel,
    lessons: Lessons,
    rate: float,
    *,
    online: bool = False,
    batch: Batch = "one",
) -> FineTuned:
    """One step on each demonstration, or on all at once ("whole"); a rate of 0 changes nothing."""
    options: dict[str, Any] = {"layer": config.layer} if config.ft == "value-layer" else {}
    options["loss_tokens"], counted = lessons.counted(config.loss_tokens)
    return fine_tune(
        loaded,
        lessons.alone,
        counted,
        method=config.ft,
        # The smallest rate there is: every product with a gradient is too small to move a weight.
        rate=rate or sys.float_info.min,
        step_norm=config.step_norm,
        readout=config.readout,
        layer_loss=config.layer_loss,
        batch=batch,
        online=online,
        **options,
    )


def update_norms(loaded: LoadedModel, asked: TaskPrompts, tuned: FineTuned) -> Floats:
    """|h_FT - h_ZSL| / |h_ZSL| (layer,), mean over the queries of `asked`."""
    none = np.zeros(0, dtype=np.int64)
    runs = run_conditions(loaded, asked, {"zsl": Condition(none), "ft": Condition(none, tuned)})
    found = [
        relative_norm_ft(Runs(one.runs["zsl"], one.runs["zsl"], one.runs["ft"])) for one in runs
    ]
    return np.asarray(np.mean(found, axis=0))


def fit(
    make: Callable[[float], FineTuned], norms_of: Callable[[FineTuned], Floats], rate: float
) -> Fit:
    """A fine-tuning at this rate, with the norms it reaches; one that diverges says so.

    It diverges by its loss (`Diverged`), or where outputs are moved beyond all measure.
    """
    try:
        tuned = make(rate)
    except Diverged as refusal:
        return Fit(None, rate, np.zeros(0), np.nan, refusal.sentence)
    norms = norms_of(tuned)
    norm = float(np.mean(norms))
    if not norm <= MOST_NORM:
        said = (
            f"fine-tuning diverged: needed attention outputs moved by at most {MOST_NORM:g} times "
            f"their norm, came {norm:.3g} at rate {rate:g}; a lower rate may do"
        )
        return Fit(None, rate, np.zeros(0), np.nan, said)
    return Fit(tuned, rate, norms, norm)


def fit_at_norm(
    make: Callable[[float], FineTuned],
    norms_of: Callable[[FineTuned], Floats],
    *,
    rate: float,
    target: float,
    close: float = CLOSE,
) -> Fit:
    """A fine-tuning whose update norm is near `target`: the rate is scaled by what is missing.

    `close`: the share of the target by which a norm may miss it.

    At most six tries; the nearest one is kept, and its `norm` says how near it came. The norm is
    taken to be a power of the rate, at first in proportion to it, then as the last two tries say.
    Where the rate diverges a tenth of it is tried.
    """
    if rate == 0 or target == 0:
        return fit(make, norms_of, 0.0)
    best: Fit | None = None
    last: Fit | None = None
    for _ in range(TRIES):
        one = fit(make, norms_of, rate)
        if one.tuned is None:
            best = best or one
            rate /= 10
            continue
        if best is None or best.tuned is None or _miss(one, target) < _miss(best, target):
            best = one
        if _miss(one, target) <= close or one.norm == 0:
            break
        change = (target / one.norm) ** (1 / steepness(last, one))
        rate, last = rate * float(np.clip(change, 1 / STEP, STEP)), one
    assert best is not None
    return best


def steepness(before: Fit | None, now: Fit) -> float:
    """By which power of the rate the norm grows, from two tries; 1 from a single one."""
    if before is None or before.rate == now.rate or before.norm <= 0:
        return 1.0
    slope = np.log(now.norm / before.norm) / np.log(now.rate / before.rate)
    return float(np.clip(slope, *STEEPNESS)) if np.isfinite(slope) else 1.0


def _miss(one: Fit, target: float) -> float:
    return abs(one.norm / target - 1)
