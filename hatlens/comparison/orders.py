"""How much the order of the demonstrations matters, in the prompt and in fine-tuning."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.inference import Interval, mean_interval
from analysis.similarity.outputs import order_sensitivity
from analysis.similarity.records import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.feed import SetFeed
from hatlens.comparison.fitting import learn
from hatlens.store import RunFolder
from probes.finetune_recipe import Diverged
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.tokens import TaskPrompts

LEAST = 2


def order_cells(config: SimilarityConfig) -> list[str]:
    """One a set, of the trained model; none where fewer than two orders were asked for."""
    if config.orders < LEAST:
        return []
    return [f"orders/trained/{place}" for place in range(config.sets)]


def run_orders(
    config: SimilarityConfig, loaded: LoadedModel, fed: SetFeed, rate: float
) -> Mapping[str, NDArray[Any]]:
    """Order sensitivity (query,) of ICL and FT: ``icl``, ``ft``, and over the change from ZSL,
    ``icl_per_change``, ``ft_per_change`` (2310.08540). NaN where a fine-tuning diverged.
    """
    asked = first_queries(fed.prompts, config.order_queries)
    none = np.zeros(0, dtype=np.int64)
    zsl = next_logp(loaded, asked, Condition(none))
    icl = np.array([next_logp(loaded, asked, Condition(t)) for t in fed.order_tokens])
    found = {"icl": sensitivities(icl, zsl)}
    try:
        ft = np.array([tuned_logp(config, loaded, fed, asked, o, rate) for o in fed.orders])
        found["ft"] = sensitivities(ft, zsl)
    except Diverged:
        found["ft"] = np.full_like(found["icl"], np.nan)
    return {
        name: values
        for run, both in found.items()
        for name, values in ((run, both[:, 0]), (f"{run}_per_change", both[:, 1]))
    }


def first_queries(prompts: TaskPrompts, count: int) -> TaskPrompts:
    """The same demonstrations with the first queries alone."""
    return replace(
        prompts,
        queries=prompts.queries[:count],
        in_context=prompts.in_context[:count],
        labels=prompts.labels[:count],
        gold=prompts.gold[:count],
    )


def tuned_logp(
    config: SimilarityConfig,
    loaded: LoadedModel,
    fed: SetFeed,
    asked: TaskPrompts,
    order: tuple[int, ...],
    rate: float,
) -> Floats:
    tuned = learn(config, loaded, lessons_of(fed.prompts).chosen(order), rate)
    return next_logp(loaded, asked, Condition(np.zeros(0, dtype=np.int64), tuned))


def next_logp(loaded: LoadedModel, asked: TaskPrompts, condition: Condition) -> Floats:
    """Log-probabilities of the next token (query, word)."""
    runs = {
        one.query: one.runs["run"].next_logp
        for one in run_conditions(loaded, asked, {"run": condition})
    }
    return np.array([runs[query] for query in range(len(runs))])


def sensitivities(orders: Floats, zsl: Floats) -> Floats:
    """Sensitivity and sensitivity per change (query, 2) of (order, query, word)."""
    return np.array([order_sensitivity(orders[:, q], zsl[q]) for q in range(len(zsl))])


def orders_result(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any] | None:
    """Means over sets and queries with intervals, and ICL's over FT's; None where not asked."""
    names = order_cells(config)
    if not names:
        return None
    cells = [folder.read_arrays(name) for name in names]
    found: dict[str, Interval] = {
        key: mean_interval(np.concatenate([cell[key] for cell in cells])) for key in cells[0]
    }
    return {"orders": config.orders, "queries": len(cells[0]["icl"]), **found}
