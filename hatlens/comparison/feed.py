"""What one comparison is fed: tokens of every set of demonstrations and of all that stands beside.

A set's runs need the demonstrations D, a disjoint set D' of the same task, lines of another task,
D with wrong labels, D in another order, and as many tokens of no task at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import (
    Lessons,
    cut_prompts,
    lessons_of,
    pieces_of_labels,
    refuse_too_long,
    template_facts,
)
from hatlens.comparison.neutral_text import neutral_tokens
from hatlens.comparison.numbers import Numbers, numbers_of
from hatlens.comparison.regression import REGRESSION, LineTask, regression_examples
from probes.models import LoadedModel
from prompts.pieces import Integers
from prompts.refusal import Refusal
from prompts.tasks.chat import refuse_bos
from prompts.tasks.draw import Drawn, draw
from prompts.tasks.sources import PACKAGED, read_examples
from prompts.tasks.task import Example, Task
from prompts.tasks.task_file import task_named
from prompts.tasks.tokens import TaskPrompts, shared_first_pieces

NORM_QUERIES = 8
"""Queries on which update norms are measured before any cell is run."""


class SetFeed(NamedTuple):
    """One set. `other`: D', `task`: another task's lines, None where there are none. `before`:
    tokens before the queries of further runs, by the run's name. `norms`: D with the queries on
    which update norms are measured. `orders`: D in further orders, as indices; `order_tokens`:
    the same as tokens before the queries. `numbers`: what regression lines have to be compared
    with; None of labels.
    """

    prompts: TaskPrompts
    other: Lessons | None
    task: Lessons | None
    before: Mapping[str, Integers]
    norms: TaskPrompts
    orders: tuple[tuple[int, ...], ...] = ()
    order_tokens: tuple[Integers, ...] = ()
    numbers: Numbers | None = None


class Fed(NamedTuple):
    """All sets. `tuning`: demonstrations and queries of no set, for the learning rate; None without
    room. `classes`: whether answers are labels. `facts`: what the manifest says of the prompts.
    """

    sets: tuple[SetFeed, ...]
    tuning: TaskPrompts | None
    classes: bool
    warnings: tuple[str, ...]
    facts: Mapping[str, Any]


class Source(NamedTuple):
    """A task with what was drawn of it, before any token; regression has queries of its own a set.

    `queries`: of each set. `tune`: demonstrations and queries for the rate, may be empty.
    """

    task: Task
    drawn: Drawn
    queries: tuple[tuple[Example, ...], ...]
    every: tuple[Example, ...]


def drawn_source(config: SimilarityConfig) -> Source:
    """Reads and draws a task; no model is needed."""
    if config.template == "chat":
        refuse_bos(config.bos)
    if config.task == REGRESSION:
        if config.data is not None:
            raise Refusal(
                f"the regression task draws its own lines; came --data {config.data!r} "
                "(a table is a task of `hatlens probe`)"
            )
        task, drawn, queries = regression_examples(config)
        return Source(task, drawn, queries, ())
    task = task_named(config.task)
    examples = read_examples(task, config.data)
    drawn = draw(
        examples,
        demonstrations=config.demos,
        queries=config.queries,
        sets=config.sets,
        balanced=config.balanced,
        rng=np.random.default_rng([config.seed, 5]),
    )
    every = (*examples.train, *examples.validation)
    return Source(examples.task, drawn, (drawn.queries,) * config.sets, every)


def feed(config: SimilarityConfig, source: Source, loaded: LoadedModel) -> Fed:
    """Tokens of every set; refuses what does not fit the model, naming its line."""
    maker = _Maker(config, source, loaded)
    refuse_too_long(config, source.task, loaded, source.every)
    other_task, warnings = other_lessons(config, loaded)
    sets = tuple(maker.one(place, other_task) for place in range(len(source.drawn.sets)))
    tuning = maker.tuning()
    warnings += [*source.drawn.warnings, *source.task.warnings]
    used = [len(one.prompts.demonstrations) for one in sets]
    if min(used) < config.demos:
        warnings.append(
            f"the context window has room for {min(used)} of {config.demos} demonstrations: the "
            "others were left out of the prompt and of fine-tuning alike"
        )
    if tuning is None:
        warnings.append("no example is left over to choose a learning rate on")
    facts = maker.facts(sets)
    if facts["labels"]["shared_first_piece"]:
        warnings.append(
            "label words begin with the same piece ("
            + "; ".join(
                ", ".join(words) for words in facts["labels"]["shared_first_piece"].values()
            )
            + "): whole labels are scored, never the first piece alone"
        )
    return Fed(sets, tuning, config.task != REGRESSION, tuple(dict.fromkeys(warnings)), facts)


class _Maker(NamedTuple):
    config: SimilarityConfig
    source: Source
    loaded: LoadedModel

    def tokens(self, demos: Sequence[Example], queries: Sequence[Example]) -> TaskPrompts:
        return cut_prompts(self.config, self.source.task, self.loaded, demos, queries)

    def one(self, place: int, other_task: Lessons | None) -> SetFeed:
        drawn, queries = self.source.drawn.sets[place], self.source.queries[place]
        prompts = self.tokens(drawn.demonstrations, queries)
        used = len(prompts.demonstrations)
        shown = drawn.demonstrations[:used]
        rng = np.random.default_rng([self.config.seed, 6, place])
        before = {"irrelevant": _irrelevant(prompts, self.loaded)}
        other = None
        if drawn.mismatched:
            learnt = self.tokens(drawn.mismatched[:used], queries)
            other = lessons_of(learnt)
            before["icl-other"] = _before(learnt)
        if (wrong := wrong_labels(self.source.task, shown, rng)) is not None:
            before["icl-wrong"] = _before(self.tokens(wrong, queries))
        orders = further_orders(used, max(1, self.config.orders), rng)
        order_tokens = tuple(
            _before(self.tokens([shown[i] for i in order], queries[:1])) for order in orders
        )
        if orders:
            before["icl-order"] = order_tokens[0]
        _, tune = self.source.drawn.tuning
        asked = (tune or queries)[:NORM_QUERIES]
        return SetFeed(
            prompts,
            other,
            None if other_task is None else other_task.first(used),
            {name: tokens for name, tokens in before.items() if len(tokens)},
            self.tokens(shown, asked),
            orders if self.config.orders else (),
            order_tokens if self.config.orders else (),
            numbers_of(self.config, place, used),
        )

    def tuning(self) -> TaskPrompts | None:
        demos, queries = self.source.drawn.tuning
        return self.tokens(demos, queries[:TUNING_QUERIES]) if demos and queries else None

    def facts(self, sets: Sequence[SetFeed]) -> dict[str, Any]:
        """What the manifest says of the prompts."""
        tokenizer = self.loaded.tokenizer
        first = sets[0].prompts
        pieces = pieces_of_labels(
            self.config, self.source.task, self.loaded, self.source.queries[0][0], first
        )
        whole = np.concatenate([*first.demonstrations, first.in_context[0]])
        return {
            "used": [len(one.prompts.demonstrations) for one in sets],
            "dropped": [one.prompts.dropped for one in sets],
            "demonstration_tokens": [
                sum(len(tokens) for tokens in one.prompts.demonstrations) for one in sets
            ],
            "queries": len(self.source.queries[0]),
            "bos": {"policy": self.config.bos, "id": first.bos},
            "labels": {"pieces": pieces, "shared_first_piece": shared_first_pieces(pieces)},
            "prompt": tokenizer.decode(whole.tolist()),
            "template": template_facts(self.config, self.loaded),
        }


def tokens_of(
    config: SimilarityConfig,
    source: Source,
    loaded: LoadedModel,
    demos: Sequence[Example],
    queries: Sequence[Example],
) -> TaskPrompts:
    """Tokens of any demonstrations and queries of a source."""
    return _Maker(config, source, loaded).tokens(demos, queries)


TUNING_QUERIES = 32


def _before(prompts: TaskPrompts) -> Integers:
    return np.concatenate(prompts.demonstrations)


def _irrelevant(prompts: TaskPrompts, loaded: LoadedModel) -> Integers:
    """As many tokens as the demonstrations have, behind what a chat template prints first."""
    shown = _before(prompts)
    neutral = neutral_tokens(loaded.tokenizer, len(shown) - prompts.header)
    return np.concatenate([shown[: prompts.header], neutral])


def wrong_labels(
    task: Task, demos: Sequence[Example], rng: np.random.Generator
) -> list[Example] | None:
    """Every demonstration with another label than its own; None where there is no other.

    Regression lines get each other's y, so that the answers printed stay the same ones.
    """
    if isinstance(task, LineTask):
        labels = np.array([one.label for one in demos])
        if len(set(labels)) < 2:
            return None
        order = rng.permutation(len(demos))
        moved = labels.copy()
        moved[order] = labels[np.roll(order, 1)]
        return [one._replace(label=str(y)) for one, y in zip(demos, moved, strict=True)]
    labels_of_task = list(task.words)
    if len(labels_of_task) < 2:
        return None
    steps = rng.integers(1, len(labels_of_task), len(demos))
    return [
        one._replace(label=labels_of_task[(task.class_of(one) + step) % len(labels_of_task)])
        for one, step in zip(demos, steps, strict=True)
    ]


def further_orders(
    count: int, orders: int, rng: np.random.Generator
) -> tuple[tuple[int, ...], ...]:
    """Random orders of so many demonstrations, none of them the given one; none of a single one."""
    if count < 2:
        return ()
    found: list[tuple[int, ...]] = []
    while len(found) < orders:
        order = tuple(int(i) for i in rng.permutation(count))
        if order != tuple(range(count)):
            found.append(order)
    return tuple(found)


def other_lessons(
    config: SimilarityConfig, loaded: LoadedModel
) -> tuple[Lessons | None, list[str]]:
    """Lines of another task to fine-tune on, as many as there are demonstrations."""
    try:
        prompts = other_prompts(config, loaded)
    except Refusal as refusal:
        if config.other_task != "auto":
            raise
        return None, [f"the control with another task was left out: {refusal.sentence}"]
    return lessons_of(prompts), []


def other_prompts(
    config: SimilarityConfig, loaded: LoadedModel, *, queries: int = 1
) -> TaskPrompts:
    """Demonstrations and queries of the other task, `auto` being one that needs no data."""
    name = config.other_task
    if name == "auto":
        name = REGRESSION if config.task != REGRESSION else next(iter(PACKAGED))
    own = config.model_copy(update={"task": name, "data": None, "sets": 1, "queries": queries})
    source = drawn_source(replaced_seed(own))
    return tokens_of(own, source, loaded, source.drawn.sets[0].demonstrations, source.queries[0])


def replaced_seed(config: SimilarityConfig) -> SimilarityConfig:
    """Another task's lines have a random stream of their own."""
    return config.model_copy(update={"seed": config.seed + 1})
