"""Demonstrations and queries: disjoint by text, seeded, and said where there are too few."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.refusal import Refusal
from prompts.tasks.draw import Drawn, draw
from prompts.tasks.sources import Examples
from prompts.tasks.task import TASKS, Example

MR = TASKS["mr"]


def examples(texts: list[str], part: str = "train") -> tuple[Example, ...]:
    labels = ("positive", "negative")
    return tuple(
        Example({"text": text}, labels[place % 2], f"{part}.csv, line {place + 2}")
        for place, text in enumerate(texts)
    )


def drawn(train: list[str], held_out: list[str], *, seed: int = 0, **asked: int) -> Drawn:
    source = Examples(MR, examples(train), examples(held_out, "validation"), "here")
    wanted = {"demonstrations": 3, "queries": 4, "sets": 2, **asked}
    return draw(
        source,
        demonstrations=wanted["demonstrations"],
        queries=wanted["queries"],
        sets=wanted["sets"],
        rng=np.random.default_rng(seed),
    )


def texts(found: tuple[Example, ...]) -> list[str]:
    return [one.fields["text"] for one in found]


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=10, max_size=30),
    st.lists(st.sampled_from("abcdefghijklmnop"), max_size=30),
    st.integers(0, 2**32 - 1),
)
def test_no_prompt_holds_its_own_query(train: list[str], held_out: list[str], seed: int) -> None:
    try:
        found = drawn(train, held_out, seed=seed, demonstrations=2)
    except Refusal:
        return
    if len({*train, *held_out}) == 1:
        assert "nothing can be concluded" in found.warnings[-1]
        return
    shown = [text for one in found.sets for text in texts(one.demonstrations + one.mismatched)]
    assert not set(texts(found.queries)) & set(shown)
    for one in found.sets:
        both = texts(one.demonstrations + one.mismatched)
        assert len(set(both)) == len(both)
    own, asked = found.tuning
    used = {*shown, *texts(found.queries)}
    assert not (set(texts(own)) | set(texts(asked))) & used
    assert not set(texts(own)) & set(texts(asked))


def test_four_rows_with_one_text_twice() -> None:
    rows = (("q0", "positive"), ("q1", "negative"), ("q2", "positive"), ("q0", "negative"))
    every = tuple(
        Example({"text": text}, label, f"c25.jsonl, line {line}")
        for line, (text, label) in enumerate(rows, start=1)
    )
    for seed in range(20):
        found = draw(
            Examples(MR, every, (), "c25.jsonl"),
            demonstrations=2,
            queries=4,
            sets=1,
            rng=np.random.default_rng(seed),
        )
        assert not set(texts(found.queries)) & set(texts(found.sets[0].demonstrations))
        assert len(found.queries) == 1
        said = " ".join(found.warnings)
        assert "line 1 and line 4 with two labels (positive, negative)" in said
        assert "4 queries were asked for, 1 are left" in said
        assert "mismatch control" in said


def test_rows_of_one_text_are_fed_with_a_warning() -> None:
    every = ["good"] * 40
    found = drawn(every, [], demonstrations=32, queries=4, sets=1)
    assert len(found.sets[0].demonstrations) == 32
    assert len(found.queries) == 4
    rows = {one.place for one in found.sets[0].demonstrations}
    assert not rows & {one.place for one in found.queries}
    assert "nothing can be concluded" in found.warnings[-1]


def test_sets_differ_and_the_same_seed_repeats() -> None:
    train, held_out = [f"t{i}" for i in range(40)], [f"v{i}" for i in range(10)]
    one, again, other = (drawn(train, held_out, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert texts(one.sets[0].demonstrations) != texts(one.sets[1].demonstrations)
    assert len(one.queries) == 4


def test_a_set_does_not_depend_on_how_many_queries_are_asked() -> None:
    train, held_out = [f"t{i}" for i in range(40)], [f"v{i}" for i in range(10)]
    assert drawn(train, held_out, queries=2).sets == drawn(train, held_out, queries=9).sets


def test_balanced_sets_have_equal_classes() -> None:
    source = Examples(MR, examples([f"t{i}" for i in range(40)]), (), "here")
    found = draw(
        source, demonstrations=7, queries=3, sets=3, balanced=True, rng=np.random.default_rng(0)
    )
    for one in found.sets:
        # Seven over two classes: the first class of the task takes the odd one.
        assert Counter(e.label for e in one.demonstrations) == {"negative": 4, "positive": 3}


def test_too_few_are_refused_with_their_count() -> None:
    with pytest.raises(Refusal, match=r"needed 9 training examples of different text.*came 4"):
        drawn(["a", "b", "c", "d", "a"], ["v"], demonstrations=9)
    with pytest.raises(Refusal, match="queries whose text is in no demonstration"):
        drawn(["a", "b", "c"], [], demonstrations=3)
    source = Examples(MR, examples(["a", "b", "c", "d"])[::2], (), "here")
    with pytest.raises(Refusal, match=r"needed 1 examples of label 'negative'.*came 0"):
        draw(
            source, demonstrations=2, queries=1, sets=1, balanced=True, rng=np.random.default_rng(0)
        )
