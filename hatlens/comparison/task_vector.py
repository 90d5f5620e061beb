"""One vector in place of the demonstrations: made and placed on split A, reported on split B."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.design import Floats
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.feed import SetFeed, Source, other_prompts, tokens_of
from hatlens.progress import Report
from probes.models import LoadedModel
from probes.task_vector import WAYS, How, Patch, last_states, patched_label_logp, refuse_unlike
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.pieces import Integers
from prompts.refusal import Refusal
from prompts.tasks.task import Example
from prompts.tasks.tokens import TaskPrompts

RANDOM, OTHER, SHUFFLED, NEUTRAL = (
    "random vector",
    "another task's vector",
    "shuffled labels",
    "neutral text",
)
CONTROLS = (RANDOM, OTHER, SHUFFLED, NEUTRAL)
RANDOM_DRAWS, SHUFFLES = 5, 3
A_THIRD = 3
"""One query of so many makes the vector and chooses its place, the others are reported on."""
STAGE = "task vector"
_NOTHING = np.zeros(0, dtype=np.int64)


def vector_cells(config: SimilarityConfig) -> list[str]:
    """One cell, of the first set on the trained model; none where it was not asked for."""
    return [f"task-vector/trained/0-{config.vector_queries}"] if config.vector_queries else []


class Made(NamedTuple):
    """Mean states (layer, dim) after each layer at the last token: behind text, and without it."""

    behind: Floats
    alone: Floats

    def vector(self, how: How, layer: int) -> Floats:
        """What is put in place of a query's own state, or the difference that is added to it."""
        other = self.alone[layer] if how == "add" else 0.0
        return np.asarray(self.behind[layer] - other)


def run_vector(
    config: SimilarityConfig, source: Source, loaded: LoadedModel, fed: SetFeed, report: Report
) -> Mapping[str, NDArray[Any]]:
    """Summed log-probabilities of whole labels: ``a/icl``, ``a/zsl`` (query, class) and
    ``a/patched`` (way, layer, query, class) of split A; of split B ``b/zsl``, ``b/icl``,
    ``b/vector`` and each control (draw, query, class). ``way`` and ``layer``: where the right
    answer is likeliest on A. ``lengths/a``, ``lengths/b`` (query, class), tokens. A family that
    takes no such vector leaves only what it said (``failed``).
    """
    asked = fed.prompts.first(config.vector_queries)
    cut = max(1, len(asked.queries) // A_THIRD)
    first, rest = asked.first(cut), asked.only(range(cut, len(asked.queries)))
    report(STAGE, 0, 3)
    try:
        own = own_vector(loaded, first)
    except Refusal as refusal:
        return {"failed": np.array(refusal.sentence)}
    arrays = {f"a/{run}": logp for run, logp in plain_runs(loaded, first).items()}
    patched = everywhere(loaded, first, own)
    likely = right_logp(patched, first.gold).mean(axis=-1)
    way, layer = np.unravel_index(int(likely.argmax()), likely.shape)
    report(STAGE, 1, 3)
    made = controls_of(config, source, loaded, fed, first)
    report(STAGE, 2, 3)
    on_b: dict[str, Floats] = {}
    if len(rest.queries):
        on_b = reported(loaded, rest, own, made, WAYS[way], int(layer), config.seed)
    report(STAGE, 3, 3)
    return {
        "failed": np.array(""),
        **arrays,
        "a/patched": patched,
        "way": np.array(WAYS[way]),
        "layer": np.array(int(layer)),
        **{f"b/{run}": logp for run, logp in on_b.items()},
        **{f"gold/{name}": one.gold for name, one in (("a", first), ("b", rest))},
        **{f"lengths/{name}": label_lengths(one) for name, one in (("a", first), ("b", rest))},
    }


def label_lengths(prompts: TaskPrompts) -> Integers:
    """Tokens of each label, (query, class)."""
    return np.array([[len(label) for label in labels] for labels in prompts.labels])


def right_logp(logp: Floats, gold: Integers) -> Floats:
    """log p of the right class of (..., query, class), among the classes where there are more."""
    if logp.shape[-1] > 1:
        logp = logp - np.logaddexp.reduce(logp, axis=-1, keepdims=True)
    return np.asarray(logp[..., np.arange(len(gold)), gold], dtype=np.float64)


def own_vector(loaded: LoadedModel, prompts: TaskPrompts) -> Made:
    """The demonstrations' own, of the queries given; refuses a family that takes no vector."""
    seen = last_states(loaded, prompts, before_of(prompts))
    refuse_unlike(loaded, prompts, seen)
    alone = last_states(loaded, prompts)
    return Made(mean_state(seen.states), mean_state(alone.states))


def mean_state(states: NDArray[np.floating]) -> Floats:
    """Mean over queries of (query, layer, dim)."""
    return np.asarray(states.mean(axis=0, dtype=np.float64))


def before_of(prompts: TaskPrompts) -> Integers:
    """The demonstrations' tokens, one behind the other."""
    return np.concatenate([_NOTHING, *prompts.demonstrations])


def plain_runs(loaded: LoadedModel, prompts: TaskPrompts) -> dict[str, Floats]:
    """Label log-probabilities (query, class) of ``zsl`` and ``icl``, without any vector."""
    conditions = {"zsl": Condition(_NOTHING), "icl": Condition(before_of(prompts))}
    found = sorted(run_conditions(loaded, prompts, conditions), key=lambda one: one.query)
    return {
        run: np.stack([one.runs[run].label_logp[:, 0] for one in found]).astype(np.float64)
        for run in conditions
    }


def everywhere(loaded: LoadedModel, prompts: TaskPrompts, own: Made) -> Floats:
    """Label log-probabilities (way, layer, query, class) with the vector at every layer."""
    layers = range(len(own.behind))
    patches = [Patch(layer, own.vector(how, layer), how) for how in WAYS for layer in layers]
    found = np.moveaxis(patched_label_logp(loaded, prompts, patches), 1, 0)
    return found.reshape(len(WAYS), len(layers), *found.shape[1:]).astype(np.float64)


def controls_of(
    config: SimilarityConfig,
    source: Source,
    loaded: LoadedModel,
    fed: SetFeed,
    first: TaskPrompts,
) -> dict[str, list[Made]]:
    """Vectors of split A's queries behind what does not teach the task, several of some kinds."""
    alone = mean_state(last_states(loaded, first).states)

    def made(prompts: TaskPrompts, before: Integers) -> Made:
        return Made(mean_state(last_states(loaded, prompts, before).states), alone)

    found: dict[str, list[Made]] = {}
    if (other := other_vector(config, loaded, len(first.queries))) is not None:
        found[OTHER] = [other]
    asked = source.queries[0][: len(first.queries)]
    shown = source.drawn.sets[0].demonstrations[: len(fed.prompts.demonstrations)]
    rng = np.random.default_rng([config.seed, 11])
    for demonstrations in shuffled(shown, rng):
        prompts = tokens_of(config, source, loaded, demonstrations, asked)
        found.setdefault(SHUFFLED, []).append(made(prompts, before_of(prompts)))
    if (neutral := fed.before.get("irrelevant")) is not None:
        found[NEUTRAL] = [made(first, neutral)]
    return found


def other_vector(config: SimilarityConfig, loaded: LoadedModel, queries: int) -> Made | None:
    """The other task's vector on queries of its own; None where it cannot be had."""
    try:
        prompts = other_prompts(config, loaded, queries=queries)
    except Refusal:
        return None
    behind = last_states(loaded, prompts, before_of(prompts)).states
    return Made(mean_state(behind), mean_state(last_states(loaded, prompts).states))


def shuffled(shown: Sequence[Example], rng: np.random.Generator) -> list[list[Example]]:
    """The same demonstrations with their labels dealt out anew, `SHUFFLES` times; none where all
    have one label. As often the right label as chance says: every label wrong would teach too.
    """
    labels = [one.label for one in shown]
    if len(set(labels)) < 2:
        return []
    found: list[list[Example]] = []
    while len(found) < SHUFFLES:
        dealt = [labels[i] for i in rng.permutation(len(labels))]
        if dealt != labels:
            found.append([one._replace(label=y) for one, y in zip(shown, dealt, strict=True)])
    return found


def reported(
    loaded: LoadedModel,
    prompts: TaskPrompts,
    own: Made,
    made: Mapping[str, list[Made]],
    how: How,
    layer: int,
    seed: int,
) -> dict[str, Floats]:
    """Label log-probabilities of split B; of vector and controls (draw, query, class)."""
    vector = own.vector(how, layer)
    drawn = np.random.default_rng([seed, 12]).normal(size=(RANDOM_DRAWS, len(vector)))
    drawn *= np.linalg.norm(vector) / np.linalg.norm(drawn, axis=1, keepdims=True)
    vectors: dict[str, Sequence[Floats]] = {"vector": [vector], RANDOM: list(drawn)}
    vectors |= {name: [one.vector(how, layer) for one in some] for name, some in made.items()}
    patches = [Patch(layer, one, how) for some in vectors.values() for one in some]
    found = np.moveaxis(patched_label_logp(loaded, prompts, patches), 1, 0).astype(np.float64)
    borders = np.cumsum([len(some) for some in vectors.values()])[:-1]
    return {
        **plain_runs(loaded, prompts),
        **dict(zip(vectors, np.split(found, borders), strict=True)),
    }
