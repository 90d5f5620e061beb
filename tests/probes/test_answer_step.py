"""The answer position run on what is held, against whole prompts."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from probes.answer_step import answer_step
from probes.readout import greedy_answers
from probes.rows import context_rows
from prompts.refusal import Refusal
from tests.probes.tiny_models import WITH_ATTENTION, hand_made_context, loaded, tiny_model


def whole_prompts(tokenized: Any) -> Tensor:
    prefix, suffixes = torch.as_tensor(tokenized.prefix), torch.as_tensor(tokenized.suffixes)
    return torch.cat([prefix.expand(len(suffixes), -1), suffixes], 1)


def last_logits(model: Any, tokenized: Any) -> Tensor:
    """One prompt at a time, from its first token."""
    rows = []
    for ids in whole_prompts(tokenized):
        with torch.no_grad():
            rows.append(model(input_ids=ids[None], use_cache=False).logits[0, -1])
    return torch.stack(rows)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_the_last_token_gives_what_whole_prompts_give_every_time(name: str) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    step = answer_step(model, tokenized)
    first, again = step.run(), step.run()
    torch.testing.assert_close(first.logits, last_logits(model, tokenized), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(again.logits, first.logits, atol=0, rtol=0)
    apart = torch.cat([one.run().logits for one in step.apart()])
    torch.testing.assert_close(apart, first.logits, atol=1e-5, rtol=1e-5)
    assert step.position == 28


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_answers_go_on_from_it(name: str) -> None:
    model, tokenized = tiny_model(name), hand_made_context()
    block = answer_step(model, tokenized).run()
    ids = whole_prompts(tokenized)
    assert block.continuation is not None
    for token in (5, 9):
        chosen = torch.full((3,), token)
        found = block.continuation.next_logits(chosen)
        ids = torch.cat([ids, chosen[:, None]], 1)
        with torch.no_grad():
            expected = model(input_ids=ids, use_cache=False).logits[:, -1]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_query_of_one_token() -> None:
    model, whole = tiny_model("llama"), hand_made_context()
    tokenized = replace(whole, suffixes=whole.suffixes[:, :1])
    step = answer_step(model, tokenized)
    expected = last_logits(model, tokenized)
    torch.testing.assert_close(step.run().logits, expected, atol=1e-4, rtol=1e-4)


def test_what_is_held_is_counted() -> None:
    """Two layers, keys and values of 2 heads x 8 numbers x 4 bytes, 24 + 3 x 4 tokens."""
    assert answer_step(tiny_model("llama"), hand_made_context()).held_bytes == 2 * 2 * 64 * 36
    assert answer_step(tiny_model("gpt-neo"), hand_made_context()).held_bytes == 0


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3-next", "llama-dynamic"])
def test_values_are_shown_with_the_place_of_the_first(name: str) -> None:
    """Each layer's keys end at the answer position."""
    model, seen = tiny_model(name), {}
    answer_step(model, hand_made_context()).run(
        lambda call, keys, first: seen.update({call.layer: first + keys.length})
    )
    assert set(seen.values()) == {29}
    with pytest.raises(Refusal, match="'gpt_neo'"):
        answer_step(tiny_model("gpt-neo"), hand_made_context()).run(lambda *_: None)


def test_greedy_answers_are_those_of_the_rows() -> None:
    for name in ("llama", "mistral"):
        model, tokenized = tiny_model(name), hand_made_context()
        block = answer_step(model, tokenized).run()
        assert block.continuation is not None
        own = loaded(model)
        answers = greedy_answers(block.continuation, block.logits, own.tokenizer, tokens=4)
        assert answers == context_rows(own, tokenized, answer_tokens=4).answers
