"""How much the order of the demonstrations matters, in the prompt and in fine-tuning."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.claims.finding import Finding, not_assessable
from analysis.claims.order import order_finding
from analysis.inference import Interval
from analysis.similarity.outputs import order_sensitivity
from analysis.similarity.records import Floats
from analysis.similarity.resampling import draw_resamples, two_way_interval
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.feed import SetFeed
from hatlens.comparison.fitting import learn
from hatlens.store import RunFolder
from probes.finetune_recipe import Batch, Diverged
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.tokens import TaskPrompts

LEAST = 2
FULL_BATCH_ORDERS = 3
"""Of one step on all demonstrations; the order is lost in it, which a few orders show."""
PARTS = ("", "_per_change", "_change")
Arrays = Mapping[str, NDArray[Any]]
Order = tuple[int, ...]


def order_cells(config: SimilarityConfig) -> list[str]:
    """One a set, of the trained model; none where fewer than two orders were asked for."""
    if config.orders < LEAST:
        return []
    asked = f"{config.orders}-{config.order_queries}"
    return [f"orders/trained/{place}-{asked}" for place in range(config.sets)]


def run_orders(
    config: SimilarityConfig, loaded: LoadedModel, fed: SetFeed, rate: float
) -> Mapping[str, NDArray[Any]]:
    """Order sensitivity (query,) of ``icl``, ``ft`` and ``full_batch``, one step on the mean
    gradient of all demonstrations at k times the rate; with ``_change``, the change from ZSL, and
    ``_per_change``, the one over the other (2310.08540). NaN where a fine-tuning diverged.
    """
    asked = fed.prompts.first(config.order_queries)
    zsl = next_logp(loaded, asked, Condition(np.zeros(0, dtype=np.int64)))

    def behind(tokens: NDArray[np.int64]) -> Floats:
        return next_logp(loaded, asked, Condition(tokens))

    def one_by_one(order: Order) -> Floats:
        return tuned_logp(config, loaded, fed, asked, order, rate)

    def at_once(order: Order) -> Floats:
        return tuned_logp(config, loaded, fed, asked, order, rate * len(order), batch="whole")

    found = {
        "icl": in_orders(behind, fed.order_tokens, zsl),
        "ft": in_orders(one_by_one, fed.orders, zsl),
        "full_batch": in_orders(at_once, fed.orders[:FULL_BATCH_ORDERS], zsl),
    }
    return {
        f"{run}{part}": values[:, place]
        for run, values in found.items()
        for place, part in enumerate(PARTS)
    }


def in_orders(run: Callable[[Any], Floats], orders: Sequence[Any], zsl: Floats) -> Floats:
    """Sensitivity, sensitivity per change, and change (query, 3); NaN where a run diverged, and
    where there is no other order, as of one demonstration.
    """
    if not len(orders):
        return np.full((len(zsl), len(PARTS)), np.nan)
    try:
        logp = np.array([run(order) for order in orders])
    except Diverged:
        return np.full((len(zsl), len(PARTS)), np.nan)
    return np.array([order_sensitivity(logp[:, q], zsl[q]) for q in range(len(zsl))])


def tuned_logp(
    config: SimilarityConfig,
    loaded: LoadedModel,
    fed: SetFeed,
    asked: TaskPrompts,
    order: Order,
    rate: float,
    *,
    batch: Batch = "one",
) -> Floats:
    """Log-probabilities of the next token (query, word) after learning in an order."""
    lessons = lessons_of(fed.prompts).chosen(order)
    tuned = learn(config, loaded, lessons, rate, batch=batch)
    return next_logp(loaded, asked, Condition(np.zeros(0, dtype=np.int64), tuned))


def next_logp(loaded: LoadedModel, asked: TaskPrompts, condition: Condition) -> Floats:
    """Log-probabilities of the next token (query, word)."""
    runs = {
        one.query: one.runs["run"].next_logp
        for one in run_conditions(loaded, asked, {"run": condition})
    }
    return np.array([runs[query] for query in range(len(runs))])


def orders_result(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any] | None:
    """Means over sets and queries of what `run_orders` gives, both resampled; None if not asked."""
    if not order_cells(config):
        return None
    found = stored_orders(config, folder)
    drawn = draw_resamples(*found["icl"].shape, rng=np.random.default_rng([config.seed, 14]))
    means: dict[str, Interval] = {key: two_way_interval(found[key], rng=drawn) for key in found}
    return {"orders": config.orders, "queries": found["icl"].shape[1], **means}


def stored_orders(config: SimilarityConfig, folder: RunFolder) -> Arrays:
    """What `run_orders` gave, (set, query)."""
    cells = [folder.read_arrays(name) for name in order_cells(config)]
    return {key: np.stack([cell[key] for cell in cells]) for key in cells[0]}


def order_claim(config: SimilarityConfig, folder: RunFolder) -> Finding:
    """Whether ICL is as order-sensitive as fine-tuning on one demonstration after the other."""
    if not order_cells(config):
        return not_assessable("demonstrations were shown in one order (--orders 10)")
    found = stored_orders(config, folder)
    if np.isnan(found["icl"]).all():
        return not_assessable("one demonstration has no other order")
    if np.isnan(found["ft"]).all():
        return not_assessable("fine-tuning diverged on every set of demonstrations")
    return order_finding(
        found["icl_per_change"],
        found["ft_per_change"],
        icl_change=found["icl_change"],
        ft_change=found["ft_change"],
        full_batch=found["full_batch_per_change"],
    )
