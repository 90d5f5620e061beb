"""A classification task: how an example is printed and by which word each label is answered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from types import MappingProxyType
from typing import NamedTuple

from prompts.refusal import Refusal, unknown_name

LABEL = "label"
"""The column of the answer, where a task names no other."""


class Example(NamedTuple):
    """One example as read: its fields by name, its label as in the data, its place in the file."""

    fields: Mapping[str, str]
    label: str
    place: str


@dataclass(frozen=True)
class Task:
    """How a task is printed.

    `template` holds the fields in braces and ends where the answer begins. `words` maps each label
    of the data to the word that answers it, in the order of the classes. An answer is a blank and
    the word; `separator` stands between demonstrations (2212.10559 joins them by blanks). `columns`
    says which column of a file each field is read from, where the names differ. `source` is where
    its examples are; a task with a source may leave `words` empty, and takes them from there.
    """

    name: str
    template: str
    words: Mapping[str, str]
    separator: str = " "
    columns: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", MappingProxyType(dict(self.words)))
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        _check_words(self)
        if not self.fields:
            raise Refusal(
                f"a template needs a field such as {{text}}; came {self.template!r}",
                where=f"task {self.name}",
            )
        if LABEL in self.fields:
            raise Refusal(
                "a template ends before the answer; it may not print {label} itself",
                where=f"task {self.name}",
            )
        if self.template != self.template.rstrip():
            kept = self.template.rstrip()
            said = f"the template's blank at its end was dropped: an answer is {' word'!r}"
            object.__setattr__(self, "template", kept)
            object.__setattr__(self, "warnings", (*self.warnings, said))
        object.__setattr__(self, "warnings", (*self.warnings, *_noticed(self.words)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the template, in its order."""
        try:
            parsed = list(Formatter().parse(self.template))
        except ValueError as error:
            raise Refusal(
                f"a template needs balanced braces; came {self.template!r} ({error})",
                where=f"task {self.name}",
            ) from None
        found = [(name, spec, kind) for _, name, spec, kind in parsed if name is not None]
        for name, spec, kind in found:
            if not name.isidentifier() or spec or kind:
                came = name + (f"!{kind}" if kind else "") + (f":{spec}" if spec else "")
                raise Refusal(
                    f"a template's fields are plain names in braces; came {{{came}}}",
                    where=f"task {self.name}",
                )
        return tuple(dict.fromkeys(name for name, _, _ in found))

    def prompt(self, example: Example) -> str:
        """The example up to where its answer begins."""
        return self.template.format(**example.fields)

    def answer(self, label: str) -> str:
        """What answers a label: a blank and its word."""
        return f" {self.words[label]}"

    def demonstration(self, example: Example) -> str:
        """The example with its answer."""
        return self.prompt(example) + self.answer(example.label)

    def class_of(self, example: Example) -> int:
        """The index of an example's label; refuses one that the task does not list."""
        labels = list(self.words)
        if example.label not in labels:
            raise Refusal(
                f"{unknown_name('label', example.label, labels).sentence}", where=example.place
            )
        return labels.index(example.label)


def _noticed(words: Mapping[str, str]) -> list[str]:
    """What label words make doubtful: a single one, or two that differ by case alone."""
    found = []
    if len(words) == 1:
        (word,) = words.values()
        found.append(f"the task has one label, {word!r}: no answer can be wrong")
    counts = Counter(word.casefold() for word in words.values())
    if alike := [word for word in words.values() if counts[word.casefold()] > 1]:
        found.append(f"label words differ by case alone: {', '.join(alike)}; each is a class")
    return found


def _check_words(task: Task) -> None:
    where = f"task {task.name}"
    if not task.words and not task.source:
        raise Refusal("a task needs at least one label; came none", where=where)
    for label, word in task.words.items():
        if not word.strip() or word != word.strip():
            raise Refusal(
                f"a label word needs text without blanks around it; came {word!r} for {label!r}",
                where=where,
            )
    words = list(task.words.values())
    if twice := [word for word in dict.fromkeys(words) if words.count(word) > 1]:
        raise Refusal(f"label words must differ; {twice[0]!r} stands twice", where=where)


def same_words(labels: Sequence[str]) -> dict[str, str]:
    """Labels that are their own words."""
    return {label: label for label in labels}


SENTIMENT = {"negative": "Negative", "positive": "Positive"}
TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("mr", "Review: {text} Sentiment:", SENTIMENT),
            Task("sst2", "Sentence: {text} Label:", SENTIMENT),
            Task(
                "sst5",
                "Sentence: {text} Label:",
                {
                    "very negative": "terrible",
                    "negative": "bad",
                    "neutral": "neutral",
                    "positive": "good",
                    "very positive": "great",
                },
            ),
            Task("subj", "Input: {text} Type:", same_words(("objective", "subjective"))),
            Task(
                "agnews",
                "Classify the news articles into the categories of World, Sports, Business, and "
                "Technology. Article: {text} Answer:",
                {
                    "World": "World",
                    "Sports": "Sports",
                    "Business": "Business",
                    "Sci/Tech": "Technology",
                },
            ),
            Task(
                "cb",
                "{premise} Question: {hypothesis}. True, False, or Neither? Answer:",
                {"entailment": "True", "contradiction": "False", "neutral": "Neither"},
            ),
        )
    }
)
"""The six tasks of 2212.10559, appendix A, with its templates and label words."""
