"""A task's demonstrations, queries and labels as tokens, prompt and label cut together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.pieces import Integers, Pieces, Tokenizer, cut, leading_ids
from prompts.refusal import Refusal
from prompts.tasks.task import Example, Task
from prompts.tokens import Bos


@dataclass(frozen=True, eq=False)
class TaskPrompts:
    """The tokens of one set of demonstrations and of the queries asked after it.

    `bos`: the id before every prompt, None without one. `demonstrations`: each as it stands in the
    in-context prompt, whose prefix is bos and all of them joined; `answers`: where the label's
    tokens stand in each. `alone`, `alone_answers`: the same demonstrations as they are fine-tuned
    on, bos first and no separator. `queries`: the prompts alone, without bos, up to before the
    answer; `in_context`: the same after the prefix (the first token may differ by a blank).
    `labels`: per query and class the tokens that the label adds to the prompt. `gold` (query,):
    class indices. `label_words`: the classes' words. `dropped`: demonstrations that the context
    window has no room for; they are left out of `alone` too. `header`: how many tokens behind bos
    a chat template prints before the first turn: they begin the first demonstration, each one of
    `alone` and each one of `queries`, and belong to none of them; 0 in plain text.
    """

    bos: int | None
    demonstrations: tuple[Integers, ...]
    answers: tuple[slice, ...]
    alone: tuple[Integers, ...]
    alone_answers: tuple[slice, ...]
    queries: tuple[Integers, ...]
    in_context: tuple[Integers, ...]
    labels: tuple[tuple[Integers, ...], ...]
    gold: NDArray[np.int64]
    label_words: tuple[str, ...]
    dropped: int = 0
    header: int = 0

    def only(self, places: Iterable[int]) -> "TaskPrompts":
        """The same demonstrations with these queries alone, in this order."""
        kept = list(places)
        return replace(
            self,
            queries=tuple(self.queries[i] for i in kept),
            in_context=tuple(self.in_context[i] for i in kept),
            labels=tuple(self.labels[i] for i in kept),
            gold=self.gold[kept],
        )

    def first(self, count: int) -> "TaskPrompts":
        """The same demonstrations with so many of the first queries."""
        return self.only(range(min(count, len(self.queries))))


class _Cut(NamedTuple):
    """A demonstration as pieces, and the character at which its answer begins."""

    pieces: Pieces
    answer: int


def tokenize_task(
    task: Task,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    bos: Bos = "auto",
    window: int | None = None,
) -> TaskPrompts:
    """Tokens of a set of demonstrations and its queries.

    `window`: tokens that the model holds. Where the demonstrations and the longest query do not
    fit, whole demonstrations are left out from the first that does not fit on, so that in-context
    and fine-tuned runs see the same ones in the same order. Refuses a query or a demonstration that
    is longer than the window by itself, a label that shares a token with its prompt, and a
    demonstration whose border is inside a token.
    """
    alone_queries = [_query(task, one, tokenizer) for one in queries]
    lead = _lead(tokenizer, alone_queries[0][0], bos)
    alone = [_alone(task, one, tokenizer) for one in demonstrations]
    if window is not None:
        refuse_long(task, [*demonstrations, *queries], tokenizer, window)
    room = None if window is None else window - (lead is not None)
    kept, behind = _shown(task, demonstrations, queries, tokenizer, alone_queries, room)
    whole = _joined(task, demonstrations[:kept], tokenizer)
    return TaskPrompts(
        bos=lead,
        demonstrations=tuple(ids for ids, _ in whole),
        answers=tuple(place for _, place in whole),
        alone=tuple(_with_bos(lead, one.pieces.ids) for one in alone[:kept]),
        alone_answers=tuple(_answer_slice(one, lead is not None) for one in alone[:kept]),
        queries=tuple(one.ids for one, _ in alone_queries),
        in_context=tuple(behind),
        labels=tuple(labels for _, labels in alone_queries),
        gold=np.array([task.class_of(one) for one in queries], dtype=np.int64),
        label_words=tuple(task.words.values()),
        dropped=len(demonstrations) - kept,
    )


def _shown(
    task: Task,
    demonstrations: Sequence[Example],
    queries: Sequence[Example],
    tokenizer: Tokenizer,
    alone: Sequence[tuple[Pieces, tuple[Integers, ...]]],
    room: int | None,
) -> tuple[int, list[Integers]]:
    """How many demonstrations fit before every query and label, and the queries behind them.

    Behind demonstrations a query has its separator too, whose cut may depend on the last of them.
    """
    lengths = [len(ids) for ids, _ in _joined(task, demonstrations, tokenizer)]
    places = [one.place for one in demonstrations]
    kept = len(demonstrations)
    while True:
        behind = [_in_context(task, one, demonstrations[:kept], tokenizer) for one in queries]
        if room is None:
            return kept, behind
        longest = max(
            max(len(one.ids), len(ids)) + max(len(label) for label in labels)
            for (one, labels), ids in zip(alone, behind, strict=True)
        )
        fit = fitting(lengths[:kept], room - longest, room, places)
        if fit == kept:
            return kept, behind
        kept = fit


def label_pieces(task: Task, example: Example, tokenizer: Tokenizer) -> dict[str, tuple[str, ...]]:
    """The pieces by which each label word is answered after an example's prompt."""
    prompt = task.prompt(example)
    found = {}
    for label, word in task.words.items():
        pieces, start = _with_answer(task, prompt, label, tokenizer, example.place)
        found[word] = tuple(pieces.piece(token) for token in range(start, len(pieces.ids)))
    return found


def shared_first_pieces(pieces: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Label words that begin with the same piece, by that piece."""
    first: dict[str, list[str]] = {}
    for word, parts in pieces.items():
        first.setdefault(parts[0], []).append(word)
    return {piece: tuple(words) for piece, words in first.items() if len(words) > 1}


def _with_answer(
    task: Task, prompt: str, label: str, tokenizer: Tokenizer, where: str
) -> tuple[Pieces, int]:
    """Prompt and answer cut together, and the answer's first token."""
    (pieces,) = cut(tokenizer, [prompt + task.answer(label)])
    start = pieces.starting_at(len(prompt))
    if start is None:
        fused = pieces.covering(len(prompt))
        assert fused is not None
        raise Refusal(
            f"the label {task.words[label]!r} shares the piece {pieces.piece(fused)!r} with the "
            "prompt; end the template with another character",
            where=where,
        )
    return pieces, start


def _query(
    task: Task, example: Example, tokenizer: Tokenizer
) -> tuple[Pieces, tuple[Integers, ...]]:
    """A query's own pieces, and the tokens that each label adds to it."""
    prompt = task.prompt(example)
    (own,) = cut(tokenizer, [prompt])
    labels = []
    for label in task.words:
        pieces, start = _with_answer(task, prompt, label, tokenizer, example.place)
        if not np.array_equal(pieces.ids[:start], own.ids):
            raise Refusal(
                f"the prompt is cut otherwise before the label {task.words[label]!r}; end the "
                "template with another character",
                where=example.place,
            )
        labels.append(pieces.ids[start:])
    return own, tuple(labels)


def _alone(task: Task, example: Example, tokenizer: Tokenizer) -> _Cut:
    prompt = task.prompt(example)
    pieces, _ = _with_answer(task, prompt, example.label, tokenizer, example.place)
    return _Cut(pieces, len(prompt))


def _answer_slice(one: _Cut, bos: bool) -> slice:
    start = one.pieces.starting_at(one.answer)
    assert start is not None
    return slice(start + bos, len(one.pieces.ids) + bos)


def _with_bos(lead: int | None, ids: Integers) -> Integers:
    return ids if lead is None else np.concatenate([np.array([lead], np.int64), ids])


def _lead(tokenizer: Tokenizer, pieces: Pieces, bos: Bos) -> int | None:
    """The id that stands before every text; the policies are those of regression prompts."""
    if bos == "never":
        return None
    own = leading_ids(tokenizer, pieces)
    if own:
        return int(own[-1])
    if bos == "auto":
        return None
    if tokenizer.bos_token_id is None:
        raise Refusal("bos 'always' needs a tokenizer with a begin-of-sequence token; it has none")
    return int(tokenizer.bos_token_id)


def _text(task: Task, demonstrations: Sequence[Example]) -> str:
    return task.separator.join(task.demonstration(one) for one in demonstrations)


def _joined(
    task: Task, demonstrations: Sequence[Example], tokenizer: Tokenizer
) -> list[tuple[Integers, slice]]:
    """Each demonstration's tokens in the joined text, and where its answer stands in them.

    A separator belongs to the demonstration after it.
    """
    (pieces,) = cut(tokenizer, [_text(task, demonstrations)]) if demonstrations else (None,)
    found, character, start = [], 0, 0
    for place, one in enumerate(demonstrations):
        assert pieces is not None
        answer = character + len(task.separator) * (place > 0) + len(task.prompt(one))
        character = answer + len(task.answer(one.label))
        end, first = pieces.ending_at(character), pieces.starting_at(answer)
        if end is None or first is None:
            raise Refusal(
                "a demonstration's border is inside a token; choose another separator",
                where=one.place,
            )
        found.append((pieces.ids[start:end], slice(first - start, end - start)))
        start = end
    return found


def _in_context(
    task: Task, query: Example, demonstrations: Sequence[Example], tokenizer: Tokenizer
) -> Integers:
    """The query's tokens behind the last demonstration, the separator before it included."""
    if not demonstrations:
        return cut(tokenizer, [task.prompt(query)])[0].ids
    last = task.demonstration(demonstrations[-1])
    (pieces,) = cut(tokenizer, [last + task.separator + task.prompt(query)])
    start = pieces.starting_at(len(last))
    if start is None:
        raise Refusal(
            "a query's border is inside a token; choose another separator", where=query.place
        )
    return pieces.ids[start:]


def fitting(lengths: Sequence[int], room: int, window: int, places: Sequence[str]) -> int:
    """How many demonstrations, from the first on, fit into so many tokens; refuses none."""
    kept = int((np.cumsum(lengths) <= room).sum())
    if lengths and not kept:
        raise Refusal(
            f"no demonstration fits: the longest query leaves {room:,} of {window:,} tokens",
            where=places[0],
        )
    return kept


def refuse_long(task: Task, examples: Sequence[Example], tokenizer: Tokenizer, window: int) -> None:
    """Refuse the first example that is longer than the model's window by itself."""
    for one in examples:
        refuse_long_text(task.demonstration(one), one.place, tokenizer, window)


def refuse_long_text(text: str, where: str, tokenizer: Tokenizer, window: int) -> None:
    """Refuse an example's text of more tokens than the model's window holds."""
    if len(text.encode()) < window:  # a token covers at least one byte
        return
    length = len(cut(tokenizer, [text])[0].ids)
    if length > window:
        raise Refusal(
            f"the example is {length:,} tokens long, the model's context window holds {window:,}",
            where=where,
        )
