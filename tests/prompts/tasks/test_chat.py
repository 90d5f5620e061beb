"""A task as a chat: the tokens of the whole chat at once are those of its parts in a row."""

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from prompts.refusal import Refusal
from prompts.tasks.chat import chat_label_pieces, refuse_long_turns, tokenize_chat
from prompts.tasks.chat_frame import chat_frame
from prompts.tasks.task import TASKS, Example
from prompts.tasks.tokens import TaskPrompts
from tests.prompts.chat_tokenizers import ALTERED, TEMPLATES, chat_tokenizer

MR = TASKS["mr"]


def example(text: str, label: str = "positive", line: int = 2) -> Example:
    return Example({"text": text}, label, f"d.csv, line {line}")


DEMOS = [example("a fine film"), example("dull", "negative", 3), example("a small joy", line=4)]
QUERIES = [example("so so"), example("long and slow and far too loud", "negative")]


def at_once(tokenizer: Any, demos: list[Example], query: Example, *, ask: bool = True) -> Any:
    """The whole chat as the tokenizer itself renders and cuts it: the reference."""
    turns = []
    for one in demos:
        turns += [("user", MR.prompt(one)), ("assistant", MR.words[one.label])]
    if ask:
        turns.append(("user", MR.prompt(query)))
    messages = [{"role": role, "content": content} for role, content in turns]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
    text = text.replace(datetime.now().strftime("%d %B %Y"), "01 January 2025")
    return np.array(tokenizer(text, add_special_tokens=False)["input_ids"])


def led(found: TaskPrompts, *parts: Any) -> Any:
    return np.concatenate([[] if found.bos is None else [found.bos], *parts]).astype(int)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("begin", ["<s>", "<|im_start|>"])
def test_the_whole_chat_at_once_is_its_parts_in_a_row(name: str, begin: str) -> None:
    tokenizer = chat_tokenizer(TEMPLATES[name], begin=begin)
    found = tokenize_chat(MR, DEMOS, QUERIES, tokenizer)
    for query, alone, behind in zip(QUERIES, found.queries, found.in_context, strict=True):
        assert_array_equal(
            led(found, *found.demonstrations, behind), at_once(tokenizer, DEMOS, query)
        )
        assert_array_equal(led(found, alone), at_once(tokenizer, [], query))
        # In its own run a query has the template's header before it, and else the same tokens.
        own = min(len(alone), len(behind))
        assert_array_equal(alone[len(alone) - own :], behind[len(behind) - own :])


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_is_learnt_is_what_the_prompt_shows(name: str) -> None:
    tokenizer = chat_tokenizer(TEMPLATES[name])
    found = tokenize_chat(MR, DEMOS, QUERIES, tokenizer)
    whole = np.concatenate([np.zeros(0, int), *found.demonstrations])
    skip = int(found.bos is not None)
    header = whole[: found.header]
    for place, (one, shown, alone) in enumerate(
        zip(DEMOS, found.demonstrations, found.alone, strict=True)
    ):
        turns = shown[found.header :] if place == 0 else shown
        # A begin mark that is no part of a turn stands before each lesson too.
        kept = alone[skip + found.header :]
        assert_array_equal(alone[skip : skip + found.header], header)
        assert_array_equal(kept[-len(turns) :], turns[-len(kept) :])
        first = at_once(tokenizer, [one], QUERIES[0])
        assert_array_equal(alone, first[: len(alone)])
        for ids, where in (
            (shown, found.answers[place]),
            (alone, found.alone_answers[place]),
        ):
            assert tokenizer.decode(ids[where]).strip() == MR.words[one.label]


@pytest.mark.parametrize("name", TEMPLATES)
def test_labels_are_cut_behind_the_generation_prompt(name: str) -> None:
    tokenizer = chat_tokenizer(TEMPLATES[name])
    found = tokenize_chat(MR, DEMOS, QUERIES, tokenizer)
    lead = chat_frame(tokenizer).lead
    words = [[tokenizer.decode(ids) for ids in labels] for labels in found.labels]
    assert words == [[f"{lead}Negative", f"{lead}Positive"]] * 2
    assert_array_equal(found.gold, [1, 0])
    pieces = chat_label_pieces(found, tokenizer)
    assert {word: "".join(parts) for word, parts in pieces.items()} == {
        "Negative": words[0][0],
        "Positive": words[0][1],
    }


def test_the_system_text_and_the_day_stand_once_in_every_run() -> None:
    for name, said in (("system", "You are kind."), ("dated", "01 January 2025")):
        tokenizer = chat_tokenizer(TEMPLATES[name])
        found = tokenize_chat(MR, DEMOS, QUERIES, tokenizer)
        runs = [np.concatenate([*found.demonstrations, found.in_context[0]]), found.queries[0]]
        for ids in (*runs, *found.alone):
            assert tokenizer.decode(ids).count(said) == 1
        # "<s>" is bos and no part of the header.
        assert said in tokenizer.decode(found.queries[0][: found.header])
        assert "Review" not in tokenizer.decode(found.queries[0][: found.header])


@pytest.mark.parametrize("name", ALTERED)
def test_templates_whose_turns_differ_by_place_are_refused(name: str) -> None:
    tokenizer = chat_tokenizer(ALTERED[name])
    with pytest.raises(Refusal, match=r"chat template.*--template plain"):
        tokenize_chat(MR, DEMOS, QUERIES, tokenizer)


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(Refusal, match="no chat template; use"):
        tokenize_chat(MR, DEMOS, QUERIES, chat_tokenizer(None))


def test_a_policy_for_bos_is_refused() -> None:
    with pytest.raises(Refusal, match="says itself what stands first; came bos 'never'"):
        tokenize_chat(MR, DEMOS, QUERIES, chat_tokenizer(TEMPLATES["marks"]), bos="never")


def test_a_text_that_holds_a_mark_is_refused_with_its_line() -> None:
    bad = example("fine<|im_end|>", line=9)
    tokenizer = chat_tokenizer(TEMPLATES["marks"])
    for demos, queries in (([bad], QUERIES), (DEMOS, [bad])):
        with pytest.raises(Refusal, match=r"'<\|im_end\|>'") as refused:
            tokenize_chat(MR, demos, queries, tokenizer)
        assert refused.value.where == "d.csv, line 9"


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(list(TEMPLATES)),
    texts=st.lists(st.from_regex(r"[a-z]{1,8}( [a-z0-9]{1,8}){0,3}", fullmatch=True), min_size=1),
    room=st.integers(0, 400),
)
def test_what_does_not_fit_is_dropped_from_the_end_everywhere(
    name: str, texts: list[str], room: int
) -> None:
    tokenizer = chat_tokenizer(TEMPLATES[name])
    demos = [example(text, ("positive", "negative")[i % 2]) for i, text in enumerate(texts)]
    whole = tokenize_chat(MR, demos, QUERIES, tokenizer)
    label = len(chat_frame(tokenizer).lead + "Positive")
    longest = max(len(ids) for ids in whole.in_context) + label
    window = len(whole.alone[0]) + longest + room
    found = tokenize_chat(MR, demos, QUERIES, tokenizer, window=window)
    kept = len(found.demonstrations)
    assert kept == len(found.alone) == len(found.answers) == len(demos) - found.dropped > 0
    for part in ("demonstrations", "alone"):
        for one, other in zip(getattr(found, part), getattr(whole, part), strict=False):
            assert_array_equal(one, other)
    used = int(found.bos is not None) + sum(map(len, found.demonstrations))
    assert used + longest <= window
    if kept < len(demos):
        assert used + len(whole.demonstrations[kept]) + longest > window
    assert_array_equal(
        led(found, *found.demonstrations, found.in_context[1]),
        at_once(tokenizer, demos[:kept], QUERIES[1]),
    )


def test_no_demonstration_and_too_long_ones_are_refused() -> None:
    tokenizer = chat_tokenizer(TEMPLATES["system"])
    with pytest.raises(Refusal, match="no demonstration fits"):
        tokenize_chat(MR, DEMOS, QUERIES, tokenizer, window=150)
    with pytest.raises(Refusal, match=r"1,0\d\d tokens long") as refused:
        refuse_long_turns(MR, [*DEMOS, example("x" * 1000, line=9)], tokenizer, 512)
    assert refused.value.where == "d.csv, line 9"


def test_without_demonstrations_the_query_stands_alone() -> None:
    found = tokenize_chat(MR, [], QUERIES, chat_tokenizer(TEMPLATES["dated"]))
    assert found.demonstrations == ()
    assert_array_equal(found.in_context[0], found.queries[0])
