"""Tokens of a task: prompt and label are cut together, and demonstrations join to the prefix."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prompts.refusal import Refusal
from prompts.tasks.task import TASKS, Example, Task
from prompts.tasks.tokens import (
    label_pieces,
    refuse_long,
    shared_first_pieces,
    tokenize_task,
)
from tests.prompts.small_tokenizers import single_digits, wrapped

MR = TASKS["mr"]


def example(text: str, label: str = "positive", line: int = 2) -> Example:
    return Example({"text": text}, label, f"d.csv, line {line}")


DEMOS = [example("a fine film"), example("dull", "negative", 3), example("a small joy", line=4)]
QUERIES = [example("so so"), example("long and slow and far too loud", "negative")]


def spelled(tokenizer: Any, ids: Any) -> str:
    return str(tokenizer.decode(list(ids)))


@pytest.mark.parametrize("separator", [" ", "\n", "\n\n"])
@pytest.mark.parametrize("lead", ["", "<s>"])
def test_the_pieces_spell_the_prompt(separator: str, lead: str) -> None:
    tokenizer = single_digits(lead=lead)
    task = Task("own", MR.template, MR.words, separator)
    found = tokenize_task(task, DEMOS, QUERIES, tokenizer)
    assert (found.bos is None) == (lead == "")
    prefix = np.concatenate(found.demonstrations)
    joined = separator.join(task.demonstration(one) for one in DEMOS)
    assert spelled(tokenizer, prefix) == joined
    for query, alone, behind, labels in zip(
        QUERIES, found.queries, found.in_context, found.labels, strict=True
    ):
        assert spelled(tokenizer, alone) == task.prompt(query)
        assert spelled(tokenizer, behind) == separator + task.prompt(query)
        assert [spelled(tokenizer, label) for label in labels] == [" Negative", " Positive"]
        # The whole text, cut at once, is just these pieces.
        whole = joined + separator + task.prompt(query) + " Positive"
        at_once = tokenizer(whole, add_special_tokens=False)["input_ids"]
        assert_array_equal(np.concatenate([prefix, behind, labels[1]]), at_once)
    for ids, place in zip(found.demonstrations, found.answers, strict=True):
        assert spelled(tokenizer, ids[place]) in (" Positive", " Negative")
    for one, ids, place in zip(DEMOS, found.alone, found.alone_answers, strict=True):
        own = ids[found.bos is not None :]
        assert spelled(tokenizer, own) == task.demonstration(one)
        assert spelled(tokenizer, ids[place]) == task.answer(one.label)
    assert_array_equal(found.gold, [1, 0])


def test_whole_demonstrations_are_left_out_from_the_first_that_does_not_fit() -> None:
    tokenizer = single_digits()
    whole = tokenize_task(MR, DEMOS, QUERIES, tokenizer)
    lengths = np.cumsum([len(ids) for ids in whole.demonstrations])
    # Behind demonstrations a query has its separator too.
    longest = max(len(ids) for ids in whole.in_context) + len(" Positive")
    for kept in (1, 2, 3):
        window = int(lengths[kept - 1]) + longest
        found = tokenize_task(MR, DEMOS, QUERIES, tokenizer, window=window)
        assert (len(found.demonstrations), len(found.alone), found.dropped) == (
            kept,
            kept,
            3 - kept,
        )
        assert_array_equal(found.demonstrations[0], whole.demonstrations[0])
    with pytest.raises(Refusal, match="no demonstration fits"):
        tokenize_task(MR, DEMOS, QUERIES, tokenizer, window=int(lengths[0]) + longest - 1)


def test_an_example_longer_than_the_window_is_refused_with_its_line() -> None:
    tokenizer = single_digits()
    with pytest.raises(Refusal, match=r"is 1,0\d\d tokens long.*holds 512") as refused:
        refuse_long(MR, [*DEMOS, example("x" * 1000, line=9)], tokenizer, 512)
    assert refused.value.where == "d.csv, line 9"


def test_labels_of_several_pieces_that_begin_alike_are_shown() -> None:
    tokenizer = wrapped(single_digits().backend_tokenizer.pre_tokenizer, [("Ġ", "P")])
    task = Task("own", "{text}:", {"a": "Po", "b": "Pa", "c": "x"})
    pieces = label_pieces(task, example("one", "a"), tokenizer)
    assert pieces == {"Po": (" P", "o"), "Pa": (" P", "a"), "x": (" ", "x")}
    assert shared_first_pieces(pieces) == {" P": ("Po", "Pa")}


def test_a_label_that_fuses_with_the_prompt_is_refused() -> None:
    # The piece ": " takes the blank of the answer.
    tokenizer = wrapped(unsplit(), [(":", "Ġ")])
    with pytest.raises(Refusal, match=r"'Negative' shares the piece ': '") as refused:
        tokenize_task(MR, DEMOS, QUERIES, tokenizer)
    assert "line" in refused.value.where


def unsplit() -> Any:
    """Nothing is split before merges, so that they may cross blanks."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def test_without_demonstrations_the_query_stands_alone() -> None:
    found = tokenize_task(MR, [], QUERIES, single_digits())
    assert found.demonstrations == ()
    assert_array_equal(found.in_context[0], found.queries[0])


def test_some_queries_keep_the_demonstrations() -> None:
    """Queries, labels and right answers of the same places; more than there are is all of them."""
    task = Task("t", "{text}:", {"a": "a", "b": "b"})
    examples = [Example({"text": str(i)}, "ab"[i % 2], "here") for i in range(4)]
    whole = tokenize_task(task, examples[:1], examples[1:], single_digits())
    some = whole.only([2, 0])
    assert some.demonstrations == whole.demonstrations
    for name in ("queries", "in_context", "labels"):
        assert getattr(some, name) == (getattr(whole, name)[2], getattr(whole, name)[0])
    assert some.gold.tolist() == [whole.gold[2], whole.gold[0]] == [1, 1]
    assert [len(whole.first(count).queries) for count in (1, 3, 9)] == [1, 3, 3]
