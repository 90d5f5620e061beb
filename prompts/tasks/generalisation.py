"""Facts about made-up words, and questions whose answers were stated, reversed or inferred."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from prompts.pieces import Tokenizer
from prompts.refusal import Refusal
from prompts.tasks.task import Example, Task
from prompts.tasks.tokens import TaskPrompts, tokenize_task
from prompts.tokens import Bos

CANDIDATES = 4
"""Words among which each answer is chosen: guessing is right one time in four."""
RELATION, PREMISE, REVERSAL, SYLLOGISM = "relation", "premise", "reversal", "syllogism"
STATED, INFERRED = (RELATION, PREMISE), (REVERSAL, SYLLOGISM)
KINDS = (*STATED, *INFERRED)
RELATIONS = (
    ("beats", "loses to"),
    ("is above", "is below"),
    ("owns", "belongs to"),
    ("teaches", "learns from"),
    ("follows", "leads"),
    ("hires", "works for"),
    ("is before", "is after"),
    ("contains", "is inside"),
)
"""Each relation with its converse, short, so that small models find a line by its first word."""
SHOWN = 4
"""How often a prompt shows all facts, each time in another order, where it has room: models that
see made-up words once expect new ones."""
MORE = 20
"""Words drawn for each that is used; those of the fewest pieces are."""
_ONSETS, _VOWELS, _CODAS = "bdfhklmnprstvwz", "aeiou", "bdlmnr"


class Fact(NamedTuple):
    """A line of the prompt: what stands before its last word, and that word."""

    stem: str
    answer: str


class Question(NamedTuple):
    """What is asked: of a kind of `KINDS`, about fact `fact` of its form; the first of
    `candidates` is right, the others answer the same question about other facts."""

    kind: str
    fact: int
    prompt: str
    candidates: tuple[str, ...]


class Facts(NamedTuple):
    """Lines, the orders in which a prompt shows all of them, and questions about them."""

    lines: tuple[Fact, ...]
    orders: tuple[tuple[int, ...], ...]
    questions: tuple[Question, ...]


def generalisation_facts(
    count: int, *, rng: np.random.Generator, pieces: Callable[[str], int] = len
) -> Facts:
    """So many relations and so many syllogisms about made-up words, in random orders.

    A relation is "A beats B"; asked are "A beats" (as stated) and "B loses to" (reversed). A
    syllogism is two lines, "All A are B" and "All B are C"; asked are both, and "All A are" among
    words that stand where C does. Every word belongs to one fact. Candidates of an answer stand in
    the same place of other facts of the same relation, each as often as the others in a prompt, and
    each equally often right and wrong. So what words a prompt holds, how often and in which order
    does not tell the answer: only which words share a line does. `pieces`: how many tokens a word
    is. Refuses fewer than 4 facts. Forms of questions after 2505.00661.
    """
    if count < CANDIDATES:
        raise Refusal(f"needed {CANDIDATES} facts or more, as many as candidates, came {count}")
    words = iter(made_up_words(5 * count, rng=rng, pieces=pieces))
    groups = min(len(RELATIONS), count // CANDIDATES)
    members = [range(group, count, groups) for group in range(groups)]
    relations = [RELATIONS[i] for i in rng.permutation(len(RELATIONS))[:groups]]
    pairs = [(next(words), next(words)) for _ in range(count)]
    triples = [(next(words), next(words), next(words)) for _ in range(count)]
    lines = [Fact(f"{a} {relations[i % groups][0]}", b) for i, (a, b) in enumerate(pairs)]
    lines += [Fact(f"All {x} are", y) for a, b, c in triples for x, y in ((a, b), (b, c))]
    orders = [tuple(int(i) for i in rng.permutation(len(lines))) for _ in range(SHOWN)]
    asked = zip(members, relations, strict=True)
    questions = [
        one for some, words_of in asked for one in _questions(some, words_of, pairs, triples)
    ]
    return Facts(tuple(lines), tuple(orders), tuple(questions))


def _questions(
    some: range,
    relation: tuple[str, str],
    pairs: Sequence[tuple[str, ...]],
    triples: Sequence[tuple[str, ...]],
) -> list[Question]:
    """What is asked about the facts of a group."""
    found = []
    for i in some:
        a, b = pairs[i]
        found.append(Question(RELATION, i, f"{a} {relation[0]}", among(pairs, some, i, 1)))
        found.append(Question(REVERSAL, i, f"{b} {relation[1]}", among(pairs, some, i, 0)))
        a, b, _ = triples[i]
        found.append(Question(PREMISE, i, f"All {a} are", among(triples, some, i, 1)))
        found.append(Question(PREMISE, i, f"All {b} are", among(triples, some, i, 2)))
        found.append(Question(SYLLOGISM, i, f"All {a} are", among(triples, some, i, 2)))
    return found


def among(facts: Sequence[tuple[str, ...]], some: range, fact: int, place: int) -> tuple[str, ...]:
    """A fact's word at a place, then those of the next facts of its group, in a circle."""
    start = some.index(fact)
    return tuple(facts[some[(start + step) % len(some)]][place] for step in range(CANDIDATES))


def made_up_words(
    count: int, *, rng: np.random.Generator, pieces: Callable[[str], int] = len
) -> tuple[str, ...]:
    """Different words such as "zulem", none of one piece, as frequent words are.

    Those of the fewest pieces among 20 times as many. Refuses where they are not enough.
    """
    drawn: dict[str, int] = {}
    for _ in range(MORE * count):
        sounds = (_ONSETS, _VOWELS, _ONSETS, _VOWELS, _CODAS)
        word = "".join(some[rng.integers(len(some))] for some in sounds)
        drawn.setdefault(word, pieces(word))
    known = sorted((word for word, length in drawn.items() if length > 1), key=drawn.__getitem__)
    if len(known) < count:
        raise Refusal(f"needed {count} made-up words of several pieces, found {len(known)}")
    return tuple(known[i] for i in rng.permutation(count))


def pieces_of(tokenizer: Tokenizer) -> Callable[[str], int]:
    """How many tokens a word is behind a blank."""

    def pieces(word: str) -> int:
        return len(tokenizer(f" {word}", add_special_tokens=False)["input_ids"])

    return pieces


def generalisation_tokens(
    facts: Facts, tokenizer: Tokenizer, *, bos: Bos = "auto", window: int | None = None
) -> TaskPrompts:
    """The facts as demonstrations, one a line, and the questions as queries.

    All facts are shown up to 4 times, as often as a context window of so many tokens has room for
    together with any question; the first ones are each line once. Classes are places among a
    question's candidates, the right one first. Candidates are tokenised together with their
    question. Refuses facts that do not fit once.
    """
    asked = [_asked(facts, one, tokenizer, bos) for one in facts.questions]
    longest = max(len(one.in_context[0]) + max(map(len, one.labels[0])) for one in asked)
    length = 0
    for times in range(len(facts.orders), 0, -1):
        whole = _shown(facts, times, tokenizer, bos)
        length = (whole.bos is not None) + sum(map(len, whole.demonstrations)) + longest
        if window is None or length <= window:
            return replace(
                whole,
                queries=tuple(one.queries[0] for one in asked),
                in_context=tuple(one.in_context[0] for one in asked),
                labels=tuple(one.labels[0][:CANDIDATES] for one in asked),
                gold=np.zeros(len(asked), dtype=np.int64),
                label_words=("right", *(f"wrong {i}" for i in range(1, CANDIDATES))),
            )
    raise Refusal(
        f"{len(facts.lines)} lines of facts and a question are {length:,} tokens long, the model's "
        f"context window holds {window:,}; ask for fewer facts"
    )


def _shown(facts: Facts, times: int, tokenizer: Tokenizer, bos: Bos) -> TaskPrompts:
    """The facts so many times, with a question that is of no use."""
    demos = [_example(facts.lines[i]) for order in facts.orders[:times] for i in order]
    words = list(dict.fromkeys(one.answer for one in facts.lines))
    return tokenize_task(_task(words), demos, demos[:1], tokenizer, bos=bos)


def _asked(facts: Facts, question: Question, tokenizer: Tokenizer, bos: Bos) -> TaskPrompts:
    """A question with its candidates, behind a line; a line's end is the same in all."""
    last = _example(facts.lines[0])
    task = _task(list(dict.fromkeys([*question.candidates, last.label])))
    example = Example({"text": question.prompt}, question.candidates[0], "facts")
    return tokenize_task(task, [last], [example], tokenizer, bos=bos)


def _example(fact: Fact) -> Example:
    return Example({"text": fact.stem}, fact.answer, "facts")


def _task(words: Sequence[str]) -> Task:
    """Words that answer; a line ends with a full stop."""
    return Task("facts", "{text}", {word: word for word in words}, separator=".\n")
