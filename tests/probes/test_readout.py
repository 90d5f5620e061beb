"""Greedy answers, by hand on a scripted continuation and against whole prompts."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.readout import greedy_answers
from probes.rows import context_rows
from tests.probes.tiny_models import (
    WITH_ATTENTION,
    DigitTokenizer,
    hand_made_context,
    loaded,
    tiny_model,
)

WORDS = 12
LINE_END, POINT = 11, 10


class Scripted:
    """A continuation whose greedy tokens are given, one list a prompt."""

    def __init__(self, *tokens: list[int], end: int = 99) -> None:
        self.tokens = torch.tensor(tokens)
        self.fed: list[list[int]] = []
        self.model: Any = SimpleNamespace(config=SimpleNamespace(eos_token_id=end))

    def first(self) -> Tensor:
        return self._logits(0)

    def next_logits(self, tokens: Tensor) -> Tensor:
        self.fed.append(tokens.tolist())
        return self._logits(len(self.fed))

    def _logits(self, step: int) -> Tensor:
        return torch.nn.functional.one_hot(self.tokens[:, step], 100).float()


def answers(script: Scripted, tokens: int = 6) -> list[str]:
    return greedy_answers(script, script.first(), DigitTokenizer(), tokens=tokens)


def test_an_answer_ends_with_its_line() -> None:
    """3.50 then a line end: four tokens are fed, none after the line end."""
    script = Scripted([3, POINT, 5, 0, LINE_END, 7])
    assert answers(script) == ["3.50\n"]
    assert script.fed == [[3], [POINT], [5], [0]]


def test_a_finished_answer_does_not_grow_while_others_do() -> None:
    script = Scripted([1, LINE_END, 7, 7, 7], [1, 2, 3, POINT, LINE_END])
    assert answers(script) == ["1\n", "123.\n"]


def test_a_second_point_ends_a_numeral() -> None:
    assert answers(Scripted([1, POINT, 2, POINT, 3, 3])) == ["1.2."]


def test_at_most_so_many_tokens() -> None:
    script = Scripted([1, 2, 3, 4, 5, 6])
    assert answers(script, tokens=3) == ["123"]
    assert len(script.fed) == 2


def test_an_end_of_text_token_ends_an_answer_and_is_no_part_of_it() -> None:
    assert answers(Scripted([1, 2, 12, 3, 3, 3], end=12)) == ["12"]


def test_of_equal_logits_the_lowest_token_is_taken() -> None:
    script = Scripted([LINE_END, LINE_END])
    logits = torch.tensor([[0.0, 1.0, 0.5, 1.0] + [0.0] * 96])
    assert greedy_answers(script, logits, DigitTokenizer(), tokens=2)[0][0] == "1"


@pytest.mark.parametrize("block", [0, 1, 2])
@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_answers_are_those_of_whole_prompts(name: str, block: int) -> None:
    """Greedy decoding by one forward a token over the whole prompt; blocks change nothing."""
    model, tokenized = tiny_model(name), hand_made_context(3)
    rows = context_rows(loaded(model), tokenized, answer_tokens=4, block=block)
    for answer, suffix in zip(rows.answers, tokenized.suffixes, strict=True):
        fresh = tiny_model(name)
        ids = np.r_[tokenized.prefix, suffix].tolist()
        own: list[int] = []
        while len(own) < len(answer):
            logits = fresh(torch.tensor([ids + own]), use_cache=False).logits
            own.append(int(logits[0, -1].argmax()))
        assert answer == DigitTokenizer().decode([t for t in own if t != 2])
