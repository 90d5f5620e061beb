"""How a comparison's prompts become tokens: as plain text, or as turns of a chat."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.regression import REGRESSION, regression_chat, regression_tokens
from probes.models import LoadedModel
from prompts.pieces import Integers
from prompts.tasks.chat import chat_label_pieces, refuse_long_turns, tokenize_chat
from prompts.tasks.chat_frame import chat_frame
from prompts.tasks.task import Example, Task
from prompts.tasks.tokens import TaskPrompts, label_pieces, refuse_long, tokenize_task

CUTTERS: Mapping[tuple[str, bool], Callable[..., TaskPrompts]] = MappingProxyType(
    {
        ("plain", False): tokenize_task,
        ("chat", False): tokenize_chat,
        ("plain", True): regression_tokens,
        ("chat", True): regression_chat,
    }
)
"""By the template, and whether demonstrations are lines of a regression prompt."""


class Lessons(NamedTuple):
    """Demonstrations as they are fine-tuned on, and where their labels stand.

    `skip`: tokens of each that a chat template prints before the first turn, bos counted; they are
    read, and no loss counts them. 0 in plain text.
    """

    alone: tuple[Integers, ...]
    answers: tuple[slice, ...]
    skip: int = 0

    def first(self, count: int) -> "Lessons":
        """The first so many."""
        return self.chosen(range(min(count, len(self.alone))))

    def chosen(self, places: Iterable[int]) -> "Lessons":
        """Some of them, in this order."""
        places = tuple(places)
        return Lessons(
            tuple(self.alone[i] for i in places), tuple(self.answers[i] for i in places), self.skip
        )

    def counted(self, loss_tokens: str) -> tuple[str, tuple[slice, ...]]:
        """Which tokens a loss counts: all (behind `skip`), or those of the slices."""
        if loss_tokens == "all" and self.skip:
            return "label", tuple(slice(self.skip, len(ids)) for ids in self.alone)
        return loss_tokens, self.answers


def lessons_of(prompts: TaskPrompts) -> Lessons:
    """What fine-tuning on a prompt's demonstrations is given."""
    skip = prompts.header + (prompts.bos is not None) if prompts.header else 0
    return Lessons(prompts.alone, prompts.alone_answers, skip)


def cut_prompts(
    config: SimilarityConfig,
    task: Task,
    loaded: LoadedModel,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
) -> TaskPrompts:
    """Tokens of any demonstrations and queries of a task, in the template that was asked for."""
    return CUTTERS[config.template, config.task == REGRESSION](
        task,
        demonstrations,
        queries,
        loaded.tokenizer,
        bos=config.bos,
        window=loaded.context_window,
    )


def refuse_too_long(
    config: SimilarityConfig, task: Task, loaded: LoadedModel, examples: Sequence[Example]
) -> None:
    """Refuse the first example that is longer than the model's window by itself."""
    if examples and loaded.context_window is not None:
        check = refuse_long_turns if config.template == "chat" else refuse_long
        check(task, examples, loaded.tokenizer, loaded.context_window)


def pieces_of_labels(
    config: SimilarityConfig, task: Task, loaded: LoadedModel, query: Example, prompts: TaskPrompts
) -> dict[str, tuple[str, ...]]:
    """The pieces by which each label word is answered after the first query; none of numbers."""
    if config.task == REGRESSION:
        return {}
    if config.template == "chat":
        return chat_label_pieces(prompts, loaded.tokenizer)
    return label_pieces(task, query, loaded.tokenizer)


def template_facts(config: SimilarityConfig, loaded: LoadedModel) -> dict[str, str]:
    """The template, and what a chat template prints around turns."""
    frame = vars(chat_frame(loaded.tokenizer)) if config.template == "chat" else {}
    return {"kind": config.template, **frame}
