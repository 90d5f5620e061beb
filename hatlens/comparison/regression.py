"""The lines of a regression prompt as demonstrations: the same examples as `hatlens probe`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hatlens.comparison.config import SimilarityConfig
from prompts.contexts import ContextSet, draw_contexts
from prompts.design import Design
from prompts.layouts import Field, layout_named
from prompts.numerals import codec_named
from prompts.pieces import Tokenizer
from prompts.tasks.chat import tokenize_chat
from prompts.tasks.draw import DemonstrationSet, Drawn
from prompts.tasks.task import Example, Task
from prompts.tasks.tokens import TaskPrompts, tokenize_task
from prompts.tokens import Bos

REGRESSION = "regression"
ANSWER = "the right answer"


@dataclass(frozen=True)
class LineTask(Task):
    """A line whose answer is a number; `lead` is what the layout prints right before it."""

    lead: str = " "

    def answer(self, label: str) -> str:
        """What stands between the last feature's text and y, and y."""
        return f"{self.lead}{self.words[label]}"


def regression_examples(
    config: SimilarityConfig,
) -> tuple[Task, Drawn, tuple[tuple[Example, ...], ...]]:
    """Set s is main context s of `hatlens probe` under the same settings, with its own queries.

    D' is the next context (another function of the same kind), the rate is chosen on one more.
    """
    contexts = regression_contexts(config)
    fields, separator = layout_named(config.layout).fields(contexts.feature_names, "y")
    lines = [_lines(contexts, place, fields) for place in range(len(contexts.contexts))]
    lead = fields[-1].before[len(fields[-1].before.rstrip(" ")) :]
    words = {one.label: one.label for shown, asked in lines for one in (*shown, *asked)}
    task = LineTask(REGRESSION, "{text}", words, separator=separator, lead=lead)
    sets = tuple(DemonstrationSet(lines[s][0], lines[s + 1][0]) for s in range(config.sets))
    queries = tuple(lines[s][1] for s in range(config.sets))
    return task, Drawn(sets, queries[0], lines[config.sets + 1], ()), queries


def regression_contexts(config: SimilarityConfig) -> ContextSet:
    """The contexts of every set, and two more; the first are those of `hatlens probe`."""
    codec = codec_named(config.codec)
    design = Design(
        features=config.features,
        examples=config.demos,
        queries=config.queries,
        contexts=config.sets + 2,
        condition=config.condition,
        noise=config.noise,
    )
    return draw_contexts(design, codec, rng=np.random.default_rng(config.seed).spawn(3)[0])


def _lines(
    contexts: ContextSet, place: int, fields: Sequence[Field]
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    context, text = contexts.contexts[place], contexts.codec.text

    def line(x: Any, y: float, where: str) -> Example:
        before = "".join(field.before + text(float(x[field.feature])) for field in fields[:-1])
        said = f"context {place + 1}, {where}"
        return Example({"text": before + fields[-1].before.rstrip(" ")}, text(float(y)), said)

    shown = zip(context.x, context.y, strict=True)
    asked = zip(context.queries, context.targets, strict=True)
    return (
        tuple(line(x, y, f"example {i + 1}") for i, (x, y) in enumerate(shown)),
        tuple(line(x, y, f"query {i + 1}") for i, (x, y) in enumerate(asked)),
    )


def regression_tokens(
    task: Task,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    bos: Bos = "auto",
    window: int | None = None,
) -> TaskPrompts:
    """Tokens of lines and queries; each query's only "label" is its own right answer."""
    few = _with_words(task, [*demonstrations, queries[0]])
    prompts = tokenize_task(few, demonstrations, queries[:1], tokenizer, bos=bos, window=window)
    kept = demonstrations[: len(prompts.demonstrations)]
    asked = [
        tokenize_task(
            _with_words(task, [query, *kept[-1:]]), kept[-1:], [query], tokenizer, bos=bos
        )
        for query in queries
    ]
    return replace(
        prompts,
        queries=tuple(one.queries[0] for one in asked),
        in_context=tuple(one.in_context[0] for one in asked),
        labels=tuple(one.labels[0][:1] for one in asked),
        gold=np.zeros(len(queries), dtype=np.int64),
        label_words=(ANSWER,),
    )


def regression_chat(
    task: Task,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    bos: Bos = "auto",
    window: int | None = None,
) -> TaskPrompts:
    """The same as turns of a chat: the user gives a line's features, the assistant its answer."""
    prompts = tokenize_chat(
        task,
        demonstrations,
        queries,
        tokenizer,
        bos=bos,
        window=window,
        answers=lambda query: (query.label,),
    )
    return replace(prompts, gold=np.zeros(len(queries), dtype=np.int64), label_words=(ANSWER,))


def _with_words(task: Task, examples: Sequence[Example]) -> Task:
    """The task with the answers of these examples alone, the first one's first."""
    return replace(task, words={one.label: one.label for one in examples})
