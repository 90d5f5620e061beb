"""Questions on facts about made-up words that stand in the prompt, or that were learnt."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.claims.generalisation import LEAST_RECALL
from analysis.design import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import Lessons, lessons_of
from hatlens.comparison.fitting import learn
from hatlens.comparison.rate import GRIDS
from hatlens.progress import Report
from probes.finetune_recipe import Diverged
from probes.finetune_result import FineTuned
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.generalisation import (
    CANDIDATES,
    STATED,
    generalisation_facts,
    generalisation_tokens,
    pieces_of,
)
from prompts.tasks.tokens import TaskPrompts

RUNS = ("zsl", "icl", "ft")
MOST_EPOCHS, EACH = 20, 4
"""Epochs at most, and after how many the facts are asked again."""
FIRST = GRIDS["whole"][-2]
"""The rate that is tried first."""
NOISE = 1e-6
"""A mean loss of the same weights, in nats, over lines in another order."""
STAGE = "facts and what follows from them"


class Taught(NamedTuple):
    """A fine-tuning on facts. `tuned` is None where it diverged, and `failed` says how. `rate`: of
    the last epoch. `losses` (epoch,): mean over lines before each epoch, in nats.
    """

    tuned: FineTuned | None
    rate: float
    losses: tuple[float, ...]
    failed: str = ""


class Stated(NamedTuple):
    """The questions whose answers are stated, and each one's kind."""

    prompts: TaskPrompts
    kinds: NDArray[np.str_]


def generalisation_cells(config: SimilarityConfig) -> list[str]:
    """One a set of facts, on the trained model; none where no facts were asked for."""
    if not config.generalise:
        return []
    return [f"generalisation/trained/{s}-{config.generalise}" for s in range(config.sets)]


def run_generalisation(
    config: SimilarityConfig, loaded: LoadedModel, place: int, report: Report
) -> Mapping[str, NDArray[Any]]:
    """One set of facts: questions, log-probabilities of their candidates by run, and the learning.

    ``logp/RUN`` (question, candidate), the right answer first, in nats; ZSL asks the question
    alone, ICL behind all facts, FT after epochs of the facts, each a line, in a new order each
    time, every token counted.
    """
    began = time.perf_counter()
    rng = np.random.default_rng([config.seed, 10, place])
    facts = generalisation_facts(config.generalise, rng=rng, pieces=pieces_of(loaded.tokenizer))
    prompts = generalisation_tokens(
        facts, loaded.tokenizer, bos=config.bos, window=loaded.context_window
    )
    kinds = np.array([one.kind for one in facts.questions])
    none = np.zeros(0, dtype=np.int64)
    logp = {
        "zsl": candidate_logp(loaded, prompts, Condition(none)),
        "icl": candidate_logp(loaded, prompts, Condition(np.concatenate(prompts.demonstrations))),
    }
    lessons = lessons_of(prompts).first(len(facts.lines))
    taught = teach(config, loaded, lessons, stated_of(prompts, kinds), rng, report)
    logp["ft"] = (
        np.full_like(logp["icl"], np.nan)
        if taught.tuned is None
        else candidate_logp(loaded, prompts, Condition(none, taught.tuned))
    )
    return {
        "kind": kinds,
        "fact": np.array([one.fact for one in facts.questions]),
        "question": np.array([one.prompt for one in facts.questions]),
        "answer": np.array([one.candidates[0] for one in facts.questions]),
        **{f"logp/{run}": values for run, values in logp.items()},
        "shown": np.array(len(prompts.demonstrations) // len(facts.lines)),
        "rate": np.array(taught.rate),
        "losses": np.array(taught.losses),
        "failed": np.array(taught.failed),
        "seconds": np.array(time.perf_counter() - began),
    }


def candidate_logp(loaded: LoadedModel, prompts: TaskPrompts, condition: Condition) -> Floats:
    """log p of every candidate (question, candidate), whole words, in nats."""
    found = np.zeros((len(prompts.queries), CANDIDATES))
    for one in run_conditions(loaded, prompts, {"run": condition}):
        found[one.query] = one.runs["run"].label_logp[:, 0]
    return found


def right_of(logp: Floats) -> Floats:
    """1 where the right answer, the first candidate, is likelier than all others; NaN of NaN."""
    right = (logp[:, 0] > logp[:, 1:].max(axis=1)).astype(np.float64)
    return np.where(np.isnan(logp).any(axis=1), np.nan, right)


def recall_of(logp: Floats, kinds: NDArray[np.str_]) -> float:
    """Share right of stated facts, of relations or of premises, whichever is lower."""
    right = right_of(logp)
    return min(float(right[kinds == kind].mean()) for kind in STATED)


def stated_of(prompts: TaskPrompts, kinds: NDArray[np.str_]) -> Stated:
    """The questions whose answers are stated."""
    places = np.flatnonzero(np.isin(kinds, STATED))
    return Stated(prompts.only(places), kinds[places])


def teach(
    config: SimilarityConfig,
    loaded: LoadedModel,
    lessons: Lessons,
    stated: Stated,
    rng: np.random.Generator,
    report: Report,
) -> Taught:
    """Epochs of the facts, each line a step, until the model recalls .8 of them or 20 are done.

    All weights move, as in 2505.00661. At the rate that was set for the whole model; else from a
    high one, a third of which is taken from where an epoch began whose lines were no likelier after
    it. What follows from the facts is not asked for it.
    """
    lr = config.lr if config.ft == "whole" else None
    config = config.model_copy(update={"loss_tokens": "all", "ft": "whole", "layer": None})
    rate = FIRST if lr is None else lr
    earlier, tuned, losses, failed = None, None, list[float](), ""
    for tried in range(MOST_EPOCHS):
        report(STAGE, tried, MOST_EPOCHS)
        order = rng.permutation(len(lessons.alone))
        try:
            one = an_epoch(config, loaded, lessons.chosen(order), rate, tuned)
        except Diverged as refusal:
            failed = refusal.sentence
            if lr is not None:
                return Taught(None, rate, tuple(losses), failed)
            rate /= 3
            continue
        start = float(one.base_losses.mean())
        if lr is None and losses and start > losses[-1] + NOISE:
            tuned, rate = earlier, rate / 3
            losses.pop()
            continue
        earlier, tuned = tuned, one
        losses.append(start)
        if len(losses) % EACH == 0 and recalled(loaded, stated, one) >= LEAST_RECALL:
            break
    report(STAGE, MOST_EPOCHS, MOST_EPOCHS)
    return Taught(tuned, rate, tuple(losses), failed if tuned is None else "")


def an_epoch(
    config: SimilarityConfig,
    loaded: LoadedModel,
    lessons: Lessons,
    rate: float,
    before: FineTuned | None,
) -> FineTuned:
    """A step on each line from the weights that an earlier epoch left, or the base weights."""
    with nullcontext() if before is None else before.applied():
        return learn(config, loaded, lessons, rate)


def recalled(loaded: LoadedModel, stated: Stated, tuned: FineTuned) -> float:
    """The share of stated facts that fine-tuned weights recall."""
    alone = Condition(np.zeros(0, dtype=np.int64), tuned)
    return recall_of(candidate_logp(loaded, stated.prompts, alone), stated.kinds)
