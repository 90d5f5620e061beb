"""The learning rate: chosen where no set and no query of the comparison is touched."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import Lessons, lessons_of
from hatlens.comparison.feed import Fed
from hatlens.comparison.fitting import learn
from hatlens.progress import Report
from probes.finetune_recipe import Diverged
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.refusal import Refusal
from prompts.tasks.tokens import TaskPrompts

GRIDS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "gd": (0.001, 0.003, 0.01, 0.03, 0.1),
        "lcgd": (0.001, 0.003, 0.01, 0.03, 0.1),
        "whole": (0.0001, 0.0003, 0.001, 0.003, 0.01),
        "value-layer": (0.01, 0.03, 0.1, 0.3, 1.0),
    }
)
"""The rates that are tried, by way of fine-tuning; layer-causal steps at a shared rate try a tenth
of them, since their gradients are larger."""
FIXED: Mapping[str, float] = MappingProxyType(
    {"gd": 0.01, "lcgd": 0.01, "whole": 0.001, "value-layer": 0.1}
)
"""What is taken where nothing is left over to choose on."""


class Chosen(NamedTuple):
    """The rate, how it was chosen in words, and one line for each rate that was tried."""

    rate: float
    how: str
    tried: tuple[Mapping[str, Any], ...] = ()


def choose_rate(config: SimilarityConfig, fed: Fed, loaded: LoadedModel, report: Report) -> Chosen:
    """The rate as set, or the one after which the right answers of other queries are likeliest.

    Judged by the mean log-probability of the right label among the labels, which is finer than a
    count of right answers. Published work tuned on the queries it reports (`lr_split`
    "evaluation"). Refuses where every rate diverges.
    """
    if config.lr is not None:
        return Chosen(config.lr, "as set")
    evaluation = config.lr_split == "evaluation"
    asked = fed.sets[0].prompts if evaluation else fed.tuning
    if asked is None:
        return Chosen(
            FIXED[config.ft] * _scale(config), "fixed, since no example was left over to choose on"
        )
    grid = tuple(rate * _scale(config) for rate in GRIDS[config.ft])
    tried = [{"rate": 0.0, **score(loaded, asked, None), "diverged": False}]
    lessons = lessons_of(asked)
    for place, rate in enumerate(grid):
        report("choose the learning rate", place, len(grid))
        tried.append({"rate": rate, **_tried(config, loaded, lessons, asked, rate)})
    report("choose the learning rate", len(grid), len(grid))
    usable = [one for one in tried[1:] if not one["diverged"]]
    if not usable:
        raise Refusal(
            f"fine-tuning diverged at every rate that was tried ({grid[0]:g} to {grid[-1]:g}); "
            "set a lower one with --lr",
            where=config.model,
        )
    best = max(usable, key=lambda one: one["log_probability"])
    split = "the queries that are reported, as published" if evaluation else "a disjoint split"
    return Chosen(best["rate"], f"chosen on {split}", tuple(tried))


def _scale(config: SimilarityConfig) -> float:
    return 0.1 if config.ft == "lcgd" and config.step_norm == "shared" else 1.0


def _tried(
    config: SimilarityConfig,
    loaded: LoadedModel,
    lessons: Lessons,
    asked: TaskPrompts,
    rate: float,
) -> dict[str, Any]:
    try:
        tuned = learn(config, loaded, lessons, rate)
    except Diverged:
        return {"log_probability": np.nan, "accuracy": np.nan, "diverged": True}
    return {**score(loaded, asked, tuned), "diverged": False}


def score(loaded: LoadedModel, asked: TaskPrompts, tuned: Any) -> dict[str, float]:
    """Mean log-probability of the right answers, among the labels where there are several."""
    none = np.zeros(0, dtype=np.int64)
    right, found = [], []
    for one in run_conditions(loaded, asked, {"run": Condition(none, tuned)}):
        logp = one.runs["run"].label_logp[:, 0].astype(np.float64)
        if len(logp) > 1:
            logp = logp - np.logaddexp.reduce(logp)
        gold = int(asked.gold[one.query])
        found.append(logp[gold])
        right.append(int(np.argmax(logp)) == gold)
    several = len(asked.label_words) > 1
    return {
        "log_probability": float(np.mean(found)),
        "accuracy": float(np.mean(right)) if several else float("nan"),
    }
