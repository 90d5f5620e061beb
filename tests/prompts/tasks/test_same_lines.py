"""Whatever is fed, in-context prompts and fine-tuning hold the same lines in the same order."""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from prompts.refusal import Refusal
from prompts.tasks.task import TASKS, Example, Task
from prompts.tasks.tokens import TaskPrompts, tokenize_task
from tests.prompts.small_tokenizers import single_digits, three_digits, unlike_signs

LABELS = {"negative": "Negative", "positive": "Quite positive"}
"""Of unlike length, so that another label is another number of tokens."""
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12
).filter(lambda text: text.strip())
EXAMPLES = st.lists(st.tuples(TEXTS, st.sampled_from(list(LABELS))), min_size=1, max_size=7)
TOKENIZERS = {
    "digits": functools.cache(single_digits),
    "bos": functools.cache(lambda: single_digits(lead="<s>")),
    "runs": functools.cache(three_digits),
    "signs": functools.cache(unlike_signs),
}
SEPARATORS = st.sampled_from([" ", "\n", "\n\n", " ### "])


def examples(pairs: list[tuple[str, str]]) -> list[Example]:
    return [
        Example({"text": text}, label, f"d.csv, line {place + 2}")
        for place, (text, label) in enumerate(pairs)
    ]


def own(separator: str) -> Task:
    return replace(TASKS["mr"], words=LABELS, separator=separator)


def lines(prompts: TaskPrompts, tokenizer: Any, separator: str) -> list[str]:
    """What each demonstration of the prompt says, its separator left out."""
    said = [tokenizer.decode(list(ids)) for ids in prompts.demonstrations]
    assert all(one.startswith(separator) for one in said[1:])
    return [said[0], *(one.removeprefix(separator) for one in said[1:])] if said else []


def learnt(prompts: TaskPrompts, tokenizer: Any) -> list[str]:
    skip = int(prompts.bos is not None)
    assert all(ids[0] == prompts.bos for ids in prompts.alone if skip)
    return [tokenizer.decode(list(ids[skip:])) for ids in prompts.alone]


def longest_run(prompts: TaskPrompts) -> int:
    """Tokens of the longest whole prompt, the longest label behind it."""
    before = (prompts.bos is not None) + sum(len(ids) for ids in prompts.demonstrations)
    return before + max(
        len(behind) + max(map(len, labels))
        for behind, labels in zip(prompts.in_context, prompts.labels, strict=True)
    )


@settings(max_examples=150, deadline=None)
@given(EXAMPLES, EXAMPLES, st.sampled_from(list(TOKENIZERS)), SEPARATORS, st.integers(30, 600))
def test_the_prompt_shows_what_is_learnt(
    shown: list[tuple[str, str]],
    asked: list[tuple[str, str]],
    kind: str,
    separator: str,
    window: int,
) -> None:
    """Under any window: the first so many, none left out in between, and no prompt too long."""
    tokenizer, task, demos = TOKENIZERS[kind](), own(separator), examples(shown)
    try:
        found = tokenize_task(task, demos, examples(asked), tokenizer, window=window)
    except Refusal:
        assume(False)
    kept = len(found.demonstrations)
    assert lines(found, tokenizer, separator) == learnt(found, tokenizer)
    assert learnt(found, tokenizer) == [task.demonstration(one) for one in demos[:kept]]
    assert kept + found.dropped == len(demos)
    assert longest_run(found) <= window
    for parts, answers in (
        (found.demonstrations, found.answers),
        (found.alone, found.alone_answers),
    ):
        said = [tokenizer.decode(list(ids[a])) for ids, a in zip(parts, answers, strict=True)]
        assert said == [task.answer(one.label) for one in demos[:kept]]
    if found.dropped:
        more = tokenize_task(task, demos[: kept + 1], examples(asked), tokenizer)
        assert longest_run(more) > window


@settings(max_examples=60, deadline=None)
@given(EXAMPLES, st.sampled_from(list(TOKENIZERS)), SEPARATORS, st.randoms(use_true_random=False))
def test_another_order_is_another_order_of_both(
    shown: list[tuple[str, str]], kind: str, separator: str, random: Any
) -> None:
    tokenizer, task, demos = TOKENIZERS[kind](), own(separator), examples(shown)
    order = list(range(len(demos)))
    random.shuffle(order)
    query = examples([("a query", "positive")])
    given_order = tokenize_task(task, demos, query, tokenizer)
    turned = tokenize_task(task, [demos[i] for i in order], query, tokenizer)
    assert lines(turned, tokenizer, separator) == [
        lines(given_order, tokenizer, separator)[i] for i in order
    ]
    for place, i in enumerate(order):
        np.testing.assert_array_equal(turned.alone[place], given_order.alone[i])
        assert turned.alone_answers[place] == given_order.alone_answers[i]
    np.testing.assert_array_equal(turned.queries[0], given_order.queries[0])


@settings(max_examples=60, deadline=None)
@given(EXAMPLES, EXAMPLES, EXAMPLES)
def test_queries_and_demonstrations_do_not_change_each_other(
    shown: list[tuple[str, str]], asked: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    """Without a window that fills up."""
    tokenizer, task = TOKENIZERS["digits"](), own(" ")
    one = tokenize_task(task, examples(shown), examples(asked), tokenizer)
    two = tokenize_task(task, examples(shown), examples([*others, *asked]), tokenizer)
    three = tokenize_task(task, examples(others), examples(asked), tokenizer)
    for a, b in zip(one.demonstrations, two.demonstrations, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b, c in zip(one.queries, two.queries[len(others) :], three.queries, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
