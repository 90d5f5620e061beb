"""Greedy answers of every run, against the likeliest token of whole prompts, one at a time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from probes.query_answers import query_answers
from probes.three_runs_queries import Condition
from tests.probes.finetune_models import tiny_family
from tests.probes.three_runs_prompts import before, hand_made, learn

TOKENS = 4


class Digits:
    """Every token is a digit, so that no answer ends early."""

    def decode(self, tokens: list[int]) -> str:
        return "".join(str(token % 10) for token in tokens)


def by_hand(model: Any, tokens: list[int]) -> str:
    ids = list(tokens)
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits
            ids.append(int(logits[0, -1].argmax()))
    return Digits().decode(ids[-TOKENS:])


@pytest.mark.parametrize("name", ["gpt2", "llama", "xglm", "mistral"])
@pytest.mark.parametrize("bos", [None, 1])
def test_answers_are_those_of_whole_prompts(name: str, bos: int | None) -> None:
    model, prompts = tiny_family(name, scale=0.7), hand_made(bos)
    # An end-of-text token would end an answer.
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    tuned = learn(model, prompts)
    none = np.zeros(0, dtype=np.int64)
    shown = np.concatenate(prompts.demonstrations)
    asked: Any = SimpleNamespace(model=model, tokenizer=Digits())
    found = {
        run: query_answers(asked, prompts, condition, tokens=TOKENS, block=2)
        for run, condition in {
            "icl": Condition(shown),
            "zsl": Condition(none),
            "ft": Condition(none, tuned),
        }.items()
    }
    for query, tokens in enumerate(prompts.queries):
        plain = [*before(prompts, shown=False), *tokens]
        assert found["zsl"][query] == by_hand(model, plain)
        whole = [*before(prompts, shown=True), *prompts.in_context[query]]
        assert found["icl"][query] == by_hand(model, whole)
        with tuned.applied():
            assert found["ft"][query] == by_hand(model, plain)
    assert found["icl"] != found["zsl"]
