"""A task in the tokenizer's own chat template: demonstrations as turns of user and assistant.

Chat models were trained on turns that alternate, so each demonstration is a user's turn with the
example and an assistant's turn with its answer; the query is a user's turn, and is answered behind
the generation prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from prompts.pieces import Integers, Pieces, Tokenizer, cut
from prompts.refusal import Refusal
from prompts.tasks.chat_frame import Frame, alike, chat_frame, rendered
from prompts.tasks.task import Example, Task
from prompts.tasks.tokens import TaskPrompts, fitting, refuse_long_text
from prompts.tokens import Bos

SHOWN = 30
Words = Callable[[Example], Sequence[str]]


def tokenize_chat(
    task: Task,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    bos: Bos = "auto",
    window: int | None = None,
    answers: Words | None = None,
) -> TaskPrompts:
    """Tokens of a set of demonstrations and its queries as a chat; see `tokenize_task`.

    What the template prints before the first turn (`TaskPrompts.header` tokens) stands in the
    first demonstration, in each one alone, and in each query alone. A mark that ends a turn belongs
    to its demonstration. `answers`: the words that may answer a query, in place of the task's.
    Refuses a template that prints any of these chats otherwise than turn by turn, turns whose
    borders are inside a token, a text that holds one of the tokenizer's own marks, and a policy
    for <bos>, which is the template's.
    """
    refuse_bos(bos)
    chat = Chat(task, tokenizer, chat_frame(tokenizer))
    lessons = [chat.lesson(one) for one in demonstrations]
    alone = [chat.query(one) for one in queries]
    words = answers or (lambda _: tuple(task.words.values()))
    labels = [chat.labels(one, own, words(one)) for one, own in zip(queries, alone, strict=True)]
    header = chat.header(queries[0])
    kept = len(lessons)
    if window is not None:
        refuse_long_turns(task, [*demonstrations, *queries], tokenizer, window)
        longest = max(len(ids) for ids in alone) - header
        longest += max(len(ids) for adds in labels for ids in adds)
        lengths = [len(one.ids) - header * (place > 0) for place, one in enumerate(lessons)]
        kept = fitting(lengths, window - longest, window, [one.place for one in demonstrations])
    lessons = lessons[:kept]
    shown = [one.ids[header * (place > 0) :] for place, one in enumerate(lessons)]
    prompts = TaskPrompts(
        bos=None,
        demonstrations=tuple(shown),
        answers=tuple(moved(one.answer, header * (n > 0)) for n, one in enumerate(lessons)),
        alone=tuple(one.ids for one in lessons),
        alone_answers=tuple(one.answer for one in lessons),
        queries=tuple(alone),
        in_context=tuple(chat.behind(demonstrations[:kept], shown, queries) if shown else alone),
        labels=tuple(labels),
        gold=np.array([task.class_of(one) for one in queries], dtype=np.int64),
        label_words=tuple(task.words.values()),
        dropped=len(demonstrations) - kept,
        header=header,
    )
    return _begin_apart(prompts) if alone[0][0] == tokenizer.bos_token_id else prompts


def refuse_bos(bos: Bos) -> None:
    """A chat template prints its own begin mark, or none."""
    if bos != "auto":
        raise Refusal(f"a chat template says itself what stands first; came bos {bos!r}")


class Lesson(NamedTuple):
    """The turns of one demonstration by themselves, and where its answer's tokens are."""

    ids: Integers
    answer: slice


class Chat(NamedTuple):
    """A task as a template prints it."""

    task: Task
    tokenizer: Tokenizer
    frame: Frame

    def text(self, example: Example) -> str:
        """What the user says; templates trim blanks around it."""
        return self.task.prompt(example).strip()

    def word(self, example: Example) -> str:
        """What the assistant answers."""
        return self.task.words[example.label]

    def turns(self, example: Example) -> str:
        """A demonstration's two turns."""
        return self.frame.turns(self.text(example), self.word(example))

    def asked(self, example: Example) -> str:
        """A query by itself, from the chat's first character to where the answer begins."""
        return self.frame.header + self.frame.query(self.text(example))

    def header(self, query: Example) -> int:
        """How many tokens stand before the first turn."""
        (pieces,) = cut(self.tokenizer, [self.asked(query)])
        return self.border(pieces, len(self.frame.header), query)

    def lesson(self, example: Example) -> Lesson:
        """A demonstration alone, as it stands before other turns."""
        text = self.frame.header + self.turns(example)
        self.same([self.text(example), self.word(example), "?"], text + self.frame.query("?"))
        (pieces,) = cut(self.tokenizer, [text])
        self.refuse_marks(pieces, example)
        start = self.border(pieces, len(self.asked(example)), example)
        stop = self.border(pieces, len(text) - len(self.frame.closed), example)
        self.border(pieces, len(self.frame.header), example)
        return Lesson(pieces.ids, slice(start, stop))

    def query(self, example: Example) -> Integers:
        """A query alone."""
        self.same([self.text(example)], self.asked(example))
        (pieces,) = cut(self.tokenizer, [self.asked(example)])
        self.refuse_marks(pieces, example)
        return pieces.ids

    def labels(self, query: Example, alone: Integers, words: Sequence[str]) -> tuple[Integers, ...]:
        """The tokens by which each word is answered, cut together with the generation prompt."""
        asked = self.asked(query)
        found = []
        for word, pieces in zip(
            words,
            cut(self.tokenizer, [asked + self.frame.lead + word for word in words]),
            strict=True,
        ):
            if not np.array_equal(pieces.ids[: len(alone)], alone):
                raise Refusal(
                    f"the label {word!r} shares a token with the chat template's generation "
                    "prompt; use --template plain",
                    where=query.place,
                )
            found.append(pieces.ids[len(alone) :])
        return tuple(found)

    def behind(
        self,
        demonstrations: Sequence[Example],
        shown: Sequence[Integers],
        queries: Sequence[Example],
    ) -> list[Integers]:
        """Each query's tokens behind the demonstrations, from the whole chat cut at once."""
        said = [part for one in demonstrations for part in (self.text(one), self.word(one))]
        before = self.frame.header + "".join(self.turns(one) for one in demonstrations)
        wholes = [before + self.frame.query(self.text(one)) for one in queries]
        for one, whole in zip(queries, wholes, strict=True):
            self.same([*said, self.text(one)], whole)
        prefix, found = np.concatenate(shown), []
        for one, pieces in zip(queries, cut(self.tokenizer, wholes), strict=True):
            if not np.array_equal(pieces.ids[: len(prefix)], prefix):
                raise Refusal(
                    "the turns of this chat template are cut otherwise together than one by one; "
                    "use --template plain",
                    where=one.place,
                )
            found.append(pieces.ids[len(prefix) :])
        return found

    def same(self, contents: Sequence[str], text: str) -> None:
        """Refuse a template that does not print a chat as its turns one behind the other."""
        came = rendered(self.tokenizer, contents)
        if came != text:
            at = max(0, len(alike(came, text)) - SHOWN)
            raise Refusal(
                "the chat template does not print a chat as its turns one behind the other: needed "
                f"{text[at : at + 2 * SHOWN]!r} at character {at}, came "
                f"{came[at : at + 2 * SHOWN]!r}; use --template plain"
            )

    def border(self, pieces: Pieces, character: int, example: Example) -> int:
        """The token that begins there."""
        token = pieces.ending_at(character)
        if token is None:
            raise Refusal(
                "a border between turns is inside a token; use --template plain",
                where=example.place,
            )
        return token

    def refuse_marks(self, pieces: Pieces, example: Example) -> None:
        """Refuse a text that would open or close a turn itself."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        marks = set(self.tokenizer.all_special_ids) - {unknown}
        start = len(self.frame.header) + len(self.frame.user)
        own = (pieces.starts >= start) & (pieces.ends <= start + len(self.text(example)))
        for token in np.flatnonzero(own):
            if int(pieces.ids[token]) in marks:
                raise Refusal(
                    f"the text holds {pieces.piece(int(token))!r}, a mark by which chat templates "
                    "part turns",
                    where=example.place,
                )


def refuse_long_turns(
    task: Task, examples: Sequence[Example], tokenizer: Tokenizer, window: int
) -> None:
    """Refuse the first example whose turns are longer than the model's window by themselves."""
    chat = Chat(task, tokenizer, chat_frame(tokenizer))
    for one in examples:
        refuse_long_text(chat.frame.header + chat.turns(one), one.place, tokenizer, window)


def moved(place: slice, by: int) -> slice:
    """The same tokens, counted from `by` tokens further on."""
    return slice(place.start - by, place.stop - by)


def _begin_apart(prompts: TaskPrompts) -> TaskPrompts:
    """The same with the begin mark, which stands first in every prompt, as `bos`."""
    queries = tuple(ids[1:] for ids in prompts.queries)
    shown = prompts.demonstrations
    return replace(
        prompts,
        bos=int(prompts.queries[0][0]),
        demonstrations=(shown[0][1:], *shown[1:]) if shown else (),
        answers=tuple(moved(one, n == 0) for n, one in enumerate(prompts.answers)),
        queries=queries,
        in_context=prompts.in_context if shown else queries,
        header=max(0, prompts.header - 1),
    )


def chat_label_pieces(prompts: TaskPrompts, tokenizer: Any) -> dict[str, tuple[str, ...]]:
    """The pieces by which each label word is answered after the first query."""
    return {
        word: tuple(tokenizer.decode([int(token)]) for token in ids)
        for word, ids in zip(prompts.label_words, prompts.labels[0], strict=True)
    }
