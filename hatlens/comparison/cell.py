"""One cell: one set of demonstrations on one model, every run of every query."""

import inspect
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.similarity.records import Floats, Learning
from hatlens.comparison.collector import Collector
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.feed import SetFeed
from hatlens.comparison.fitting import Fit, fit, fit_at_norm, learn, update_norms
from hatlens.comparison.numbers import run_numbers
from hatlens.progress import Report
from probes.finetune_result import FineTuned
from probes.models import LoadedModel
from probes.three_runs import is_rotary, three_runs, update_shift
from probes.three_runs_context import context_record, learnt_tokens
from probes.three_runs_queries import Condition
from prompts.refusal import Refusal
from prompts.tasks.tokens import TaskPrompts

Arrays = Mapping[str, NDArray[Any]]
FT, OTHER, TASK = "ft", "ft-other", "ft-task"
OF_TWINS = ("irrelevant",)
"""Further runs that a twin has too; wrong labels and another order are run on the model alone."""
MOST_BYTES = 2**27
"""What the records of the queries that are held at once may take, about."""


class Plan(NamedTuple):
    """How a cell is run. `rate`: of the set's own fine-tuning. `target`: the update norm that it
    is brought to, None where the rate is taken as it is; the mismatched ones follow its norm.
    """

    rate: float
    target: float | None
    twin: bool
    seed: tuple[int, ...]


def run_cell(
    config: SimilarityConfig, loaded: LoadedModel, fed: SetFeed, plan: Plan, report: Report
) -> Arrays:
    """The arrays of one cell: measures, label log-probabilities, and how fine-tuning went.

    Where the set's own fine-tuning diverges the cell holds only what it said (`failed`).
    """
    began = time.perf_counter()
    fits = fitted(config, loaded, fed, plan)
    spent = {"seconds/fitting": np.array(time.perf_counter() - began)}
    own = fits[FT].tuned
    if own is None:
        return {"failed": np.array(fits[FT].failed), **fit_arrays(fits), **spent}
    arrays: dict[str, NDArray[Any]] = {"failed": np.array(""), **fit_arrays(fits), **spent}
    if not plan.twin:
        arrays.update(run_numbers(config, loaded, fed.prompts, fed.numbers, own))
    context, shift, said = weight_updates_of(loaded, fed.prompts)
    arrays["notes"] = np.array(said)
    learning = learning_of(fed.prompts, own)
    done = 0
    for position in config.positions:
        collector = Collector(
            len(fed.prompts.queries), learning, context, np.random.default_rng(plan.seed)
        )
        runs = three_runs(
            loaded,
            fed.prompts,
            own,
            position=position,
            position_matched=position_match(loaded, fed),
            more=further_runs(fed, fits, plan, shift),
            updates=context is not None,
            chunk=chunk_of(loaded, fed),
        )
        for item in runs:
            if is_rotary(loaded.model):
                # Rotation hides where the query stands: this run is the same one.
                item = item._replace(runs={**item.runs, "zsl-matched": item.runs["zsl"]})
            collector.take(item)
            done += 1
            report("queries", done, len(fed.prompts.queries) * len(config.positions))
        collector.finish()
        arrays.update(collector.arrays(position))
    arrays["seconds/whole"] = np.array(time.perf_counter() - began)
    return arrays


def fitted(
    config: SimilarityConfig, loaded: LoadedModel, fed: SetFeed, plan: Plan
) -> dict[str, Fit]:
    """The set's own fine-tuning, then the mismatched ones at the norm that it reached."""
    norms = partial(update_norms, loaded, fed.norms)
    own = lessons_of(fed.prompts)
    make = partial(learn, config, loaded, own, online=True)
    if plan.target is None:
        found = {FT: fit(make, norms, plan.rate)}
    else:
        found = {FT: fit_at_norm(make, norms, rate=plan.rate, target=plan.target)}
    first = found[FT]
    if first.tuned is None:
        return found
    for name, lessons in ((OTHER, fed.other), (TASK, fed.task)):
        if lessons is None:
            continue
        again = partial(learn, config, loaded, lessons)
        if config.equal_norm:
            found[name] = fit_at_norm(again, norms, rate=first.rate, target=first.norm)
        else:
            found[name] = fit(again, norms, first.rate)
    return found


def fit_arrays(fits: Mapping[str, Fit]) -> dict[str, NDArray[Any]]:
    """What is stored of each fine-tuning; losses in nats, norms of steps by layer."""
    found: dict[str, NDArray[Any]] = {}
    for name, one in fits.items():
        of_fit: dict[str, Any] = {"rate": one.rate, "norm": one.norm, "failed": one.failed}
        if one.tuned is not None:
            of_fit |= {
                "norms": one.norms,
                "losses": one.tuned.losses,
                "base_losses": one.tuned.base_losses,
                "closing_loss": one.tuned.closing_loss,
                "step_norms": one.tuned.update_norms,
                "layers": np.array(one.tuned.layers),
                "seconds": one.tuned.seconds,
            }
        found |= {f"fit/{name}/{key}": np.asarray(value) for key, value in of_fit.items()}
    return found


def weight_updates_of(loaded: LoadedModel, prompts: TaskPrompts) -> tuple[Floats | None, int, str]:
    """Delta W_ICL of the demonstrations, and how far queries alone are moved to compare with it.

    None, and why, where positions depend on the prompt's length.
    """
    length = sum(len(one) for one in prompts.demonstrations)
    try:
        shift = update_shift(loaded.model, prompts, length)
    except Refusal as refusal:
        return None, 0, f"weight updates were not compared: {refusal.sentence}"
    return context_record(loaded, prompts, skip=prompts.header).update, shift, ""


def learning_of(prompts: TaskPrompts, tuned: FineTuned) -> Learning:
    """What each demonstration token was right before the step that it caused.

    What a chat template prints before the first turn is no demonstration.
    """
    tokens = learnt_tokens(prompts.demonstrations, prompts.alone)
    own = tokens.shown >= prompts.header
    shown, learnt = tokens.shown[own], tokens.learnt[own]
    online = [step.online for step in tuned.steps if step.online is not None]
    return Learning(
        queries=np.concatenate([one.queries for one in online], axis=1)[:, learnt],
        inputs=np.concatenate([one.inputs for one in online], axis=1)[:, learnt],
        shown=shown,
        demonstration=tokens.demonstration[own],
        ids=np.concatenate(prompts.demonstrations)[shown],
    )


def further_runs(
    fed: SetFeed, fits: Mapping[str, Fit], plan: Plan, shift: int
) -> dict[str, Condition]:
    """Every run beside the three, by name."""
    none = np.zeros(0, dtype=np.int64)
    runs = {
        name: Condition(none, fits[name].tuned, shift)
        for name in (OTHER, TASK)
        if name in fits and fits[name].tuned is not None
    }
    for name, before in fed.before.items():
        if not plan.twin or name in OF_TWINS:
            runs[name] = Condition(before)
    return runs


def position_match(loaded: LoadedModel, fed: SetFeed) -> Any:
    """How a query alone is put where it stands in the prompt: None where nothing would change."""
    if is_rotary(loaded.model):
        return None
    if takes_position_ids(loaded):
        shift: Literal["shift"] = "shift"
        return shift
    return fed.before.get("irrelevant")


def takes_position_ids(loaded: LoadedModel) -> bool:
    """Whether the model can be told where a token stands."""
    return "position_ids" in inspect.signature(loaded.model.forward).parameters


def chunk_of(loaded: LoadedModel, fed: SetFeed) -> int:
    """How many queries are held at once: so many that all their records fit in `MOST_BYTES`."""
    width = int(loaded.model.config.get_text_config(decoder=True).hidden_size)
    heads = max(1, loaded.kv_heads)
    dim = width // max(1, loaded.heads)
    update = heads * dim * dim
    context = sum(len(one) for one in fed.prompts.demonstrations)
    longest = max(len(one) for one in fed.prompts.in_context)
    scores = loaded.heads * (context + longest)
    words = int(loaded.model.config.get_text_config(decoder=True).vocab_size)
    one = 4 * (loaded.layers * (update + scores + 3 * width) + words)
    runs = 5 + len(fed.before)
    return int(np.clip(MOST_BYTES // (one * runs), 1, 32))
