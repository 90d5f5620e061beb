"""Made-up facts: what is asked about them cannot be told but from which words share a line."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.pieces import Tokenizer
from prompts.refusal import Refusal
from prompts.tasks.generalisation import (
    CANDIDATES,
    INFERRED,
    KINDS,
    RELATIONS,
    SHOWN,
    STATED,
    Facts,
    Question,
    generalisation_facts,
    generalisation_tokens,
    made_up_words,
)
from tests.prompts.small_tokenizers import irregular, single_digits, three_digits

Reader = Callable[[Sequence[str], Question, str], float]
COUNTS = st.integers(4, 40)
SEEDS = st.integers(0, 2**32)
PLAIN = {part for pair in RELATIONS for side in pair for part in side.split()} | {"All", "are"}


def facts_of(count: int, seed: int) -> Facts:
    return generalisation_facts(count, rng=np.random.default_rng(seed))


def shown(facts: Facts) -> list[str]:
    """The lines of a prompt, as words between blanks."""
    lines = [f"{one.stem} {one.answer}" for one in facts.lines]
    return [lines[i] for order in facts.orders for i in order]


def frequency(lines: Sequence[str], question: Question, word: str) -> float:
    return " ".join(lines).split().count(word)


def last_place(lines: Sequence[str], question: Question, word: str) -> float:
    words = " ".join(lines).split()
    return max(place for place, one in enumerate(words) if one == word)


def first_place(lines: Sequence[str], question: Question, word: str) -> float:
    return -" ".join(lines).split().index(word)


def letters_shared(lines: Sequence[str], question: Question, word: str) -> float:
    return len(set(word) & set(question.prompt))


def lines_of_its_relation(lines: Sequence[str], question: Question, word: str) -> float:
    """In how many lines it stands with a word of the question that is not made up."""
    asked = set(question.prompt.split()) & PLAIN
    return sum(word in one.split() and bool(asked & set(one.split())) for one in lines)


def same_line(lines: Sequence[str], question: Question, word: str) -> float:
    asked = question.prompt.split()
    made_up = asked[1] if asked[0] == "All" else asked[0]
    return sum({word, made_up} <= set(one.split()) for one in lines)


def two_lines(lines: Sequence[str], question: Question, word: str) -> float:
    """Whether a word shares a line with the question's, or with one that does."""
    asked = question.prompt.split()
    made_up = asked[1] if asked[0] == "All" else asked[0]
    of_facts = [set(one.split()) - PLAIN for one in lines]
    near = set().union(*(one for one in of_facts if made_up in one))
    return float(any(word in one and one & near for one in of_facts))


def share_right(facts: Facts, kinds: Sequence[str], reader: Reader) -> float:
    """How often a reader's best candidate is right, equals shared."""
    lines, right = shown(facts), []
    for question in facts.questions:
        if question.kind in kinds:
            scores = [reader(lines, question, word) for word in question.candidates]
            best = max(scores)
            right.append((scores[0] == best) / scores.count(best))
    return float(np.mean(right))


@pytest.mark.parametrize(
    "reader",
    [frequency, last_place, first_place, lines_of_its_relation],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("kind", KINDS)
def test_words_that_are_judged_one_by_one_are_at_chance(reader: Reader, kind: str) -> None:
    """In groups of four a reader picks one word for all four questions: right exactly once."""
    for seed in range(5):
        assert share_right(facts_of(12, seed), [kind], reader) == 1 / 4


@pytest.mark.parametrize("reader", [frequency, last_place, first_place, letters_shared])
def test_larger_groups_are_at_chance_on_average(reader: Reader) -> None:
    """Groups of six, each question with four of them: an sd of at most sqrt(3/16/6) a draw."""
    found = [share_right(facts_of(6, seed), ["reversal"], reader) for seed in range(300)]
    assert np.mean(found) == pytest.approx(1 / 4, abs=4 * np.sqrt(3 / 16 / 6 / 300))


def test_which_words_share_a_line_tells_all_but_syllogisms() -> None:
    assert share_right(facts_of(12, 0), ["relation", "premise", "reversal"], same_line) == 1
    assert share_right(facts_of(12, 0), ["syllogism"], same_line) == 1 / 4
    assert share_right(facts_of(12, 0), INFERRED, two_lines) == 1


@settings(max_examples=30, deadline=None)
@given(count=COUNTS, seed=SEEDS)
def test_every_candidate_is_as_often_right_and_wrong(count: int, seed: int) -> None:
    facts = facts_of(count, seed)
    for kind in KINDS:
        asked = [one for one in facts.questions if one.kind == kind]
        assert len(asked) == count * (1 + (kind == "premise"))
        right = Counter(one.candidates[0] for one in asked)
        every = Counter(word for one in asked for word in one.candidates)
        assert set(right.values()) == {1}
        assert set(every.values()) == {CANDIDATES}
        assert all(len(set(one.candidates)) == CANDIDATES for one in asked)


@settings(max_examples=30, deadline=None)
@given(count=COUNTS, seed=SEEDS)
def test_every_word_belongs_to_one_fact_and_every_order_shows_all(count: int, seed: int) -> None:
    facts = facts_of(count, seed)
    words = [w for one in facts.lines for w in (*one.stem.split(), one.answer) if w not in PLAIN]
    assert len(facts.lines) == 3 * count
    assert sorted(Counter(words).values()) == [1] * 4 * count + [2] * count
    assert len(facts.orders) == SHOWN
    assert all(sorted(order) == list(range(3 * count)) for order in facts.orders)


def test_answers_are_those_of_the_facts() -> None:
    """Read back from the lines by their grammar."""
    facts = facts_of(9, 3)
    lines = [f"{one.stem} {one.answer}" for one in facts.lines]
    converse = {reverse: stated for stated, reverse in RELATIONS}
    for one in facts.questions:
        right = one.candidates[0]
        if one.kind == "reversal":
            asked, _, relation = one.prompt.partition(" ")
            assert f"{right} {converse[relation]} {asked}" in lines
        elif one.kind == "syllogism":
            (line,) = [line for line in lines if line.startswith(f"{one.prompt} ")]
            assert f"All {line.split()[-1]} are {right}" in lines
        else:
            assert f"{one.prompt} {right}" in lines


def test_a_seed_gives_the_same_facts() -> None:
    assert facts_of(8, 1) == facts_of(8, 1) != facts_of(8, 2)


def test_words_of_one_piece_are_not_made_up() -> None:
    """Half of the words are known; of the others those of two pieces come first."""

    def pieces(word: str) -> int:
        return 1 if word[0] in "bdfhklm" else 2 if word[0] in "npr" else 3

    words = made_up_words(20, rng=np.random.default_rng(0), pieces=pieces)
    assert len(set(words)) == 20
    assert {word[0] for word in words} <= set("npr")


def test_too_few_facts_or_words_are_refused() -> None:
    with pytest.raises(Refusal, match=r"needed 4 facts or more.*came 3"):
        facts_of(3, 0)
    with pytest.raises(Refusal, match="needed 20 made-up words of several pieces, found 0"):
        generalisation_facts(4, rng=np.random.default_rng(0), pieces=lambda word: 1)


@pytest.mark.parametrize(
    "tokenizer", [single_digits(), single_digits(lead="<s>"), three_digits(), irregular()]
)
def test_tokens_are_those_of_the_whole_text(tokenizer: Tokenizer) -> None:
    facts = facts_of(4, 0)
    found = generalisation_tokens(facts, tokenizer)
    lines = [f"{one.stem} {one.answer}" for one in facts.lines]
    text = ".\n".join(lines[i] for order in facts.orders for i in order)

    def ids(words: str) -> list[int]:
        return list(tokenizer(words, add_special_tokens=False)["input_ids"])

    before = np.concatenate(found.demonstrations).tolist()
    for place, one in enumerate(facts.questions):
        assert before + found.in_context[place].tolist() == ids(f"{text}.\n{one.prompt}")
        for word, label in zip(one.candidates, found.labels[place], strict=True):
            whole = found.queries[place].tolist() + label.tolist()
            assert whole == ids(f"{one.prompt} {word}")
    lead = [] if found.bos is None else [found.bos]
    first = [lead + ids(lines[i]) for i in facts.orders[0]]
    assert [one.tolist() for one in found.alone[: len(lines)]] == first


def test_facts_are_shown_as_often_as_there_is_room() -> None:
    facts, tokenizer = facts_of(4, 0), single_digits()
    whole = generalisation_tokens(facts, tokenizer)
    longest = max(
        len(own) + max(map(len, labels))
        for own, labels in zip(whole.in_context, whole.labels, strict=True)
    )
    length = sum(map(len, whole.demonstrations)) + longest
    assert len(whole.demonstrations) == SHOWN * 12
    fits = generalisation_tokens(facts, tokenizer, window=length)
    assert len(fits.demonstrations) == SHOWN * 12
    less = generalisation_tokens(facts, tokenizer, window=length - 1)
    assert len(less.demonstrations) == (SHOWN - 1) * 12
    with pytest.raises(Refusal, match=r"12 lines of facts.*context window holds 100"):
        generalisation_tokens(facts, tokenizer, window=100)


def test_kinds_are_stated_or_follow() -> None:
    assert set(STATED) | set(INFERRED) == set(KINDS)
    assert {one.kind for one in facts_of(4, 0).questions} == set(KINDS)
