"""The logit lens at the answer position, by hand on tiny models."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from probes.answer_step import answer_step
from probes.layer_readout import first_digits, layer_readout
from probes.residuals import output_head
from prompts.refusal import Refusal
from tests.probes.test_answer_step import last_logits, whole_prompts
from tests.probes.tiny_models import hand_made_context, tiny_model
from tests.prompts.small_tokenizers import three_digits

TOKENIZED = hand_made_context()


class Vocabulary:
    """Token t is the numeral t, but for 62 (a word) and 63 (a 7 behind a blank)."""

    def get_vocab(self) -> dict[str, int]:
        return {**{str(t): t for t in range(62)}, "x": 62, "Ġ7": 63}

    def decode(self, ids: list[int]) -> str:
        return f"<{ids[0]}>"


def own(name: str) -> Any:
    return SimpleNamespace(model=tiny_model(name), tokenizer=Vocabulary())


def test_tokens_stand_under_their_first_digit() -> None:
    found = first_digits(Vocabulary())
    assert found[0].tolist() == [0]
    assert found[4].tolist() == [4, *range(40, 50)]
    assert found[7].tolist() == [7, 63]
    lengths = [len(ids) for ids in first_digits(three_digits())]
    # One, two and three digits: 1 + 10 + 100 tokens begin with each.
    assert lengths == [111] * 10
    tokens = SimpleNamespace(get_vocab=lambda: {"1": 0, "a2": 1})
    with pytest.raises(Refusal, match=r"tokens for the digits 0 to 9, came none for \[0, 2"):
        first_digits(tokens)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "llama-dynamic"])
def test_the_last_layer_says_what_the_model_says(name: str) -> None:
    found = layer_readout(own(name), TOKENIZED)
    probabilities = last_logits(tiny_model(name), TOKENIZED).double().softmax(-1).numpy()
    for digit, ids in enumerate(first_digits(Vocabulary())):
        expected = probabilities[:, ids].sum(-1)
        np.testing.assert_allclose(found.digits[:, -1, digit], expected, atol=1e-4)
    expected_tokens = [f"<{token}>" for token in probabilities.argmax(-1)]
    assert found.likeliest[:, -1].tolist() == expected_tokens
    assert (found.digits.sum(-1) <= 1 + 1e-9).all()


def test_earlier_layers_by_hand() -> None:
    """The norm and the unembedding on the model's own hidden states."""
    model, found = tiny_model("llama"), layer_readout(own("llama"), TOKENIZED)
    with torch.no_grad():
        ids = whole_prompts(TOKENIZED)
        hidden = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
        for layer in (0, 1):
            state = hidden[layer][:, -1]
            np.testing.assert_allclose(found.states[:, layer], state, atol=1e-4)
            logits = model.lm_head(model.model.norm(state)).double()
            expected = logits.softmax(-1)[:, first_digits(Vocabulary())[3]].sum(-1)
            np.testing.assert_allclose(found.digits[:, layer, 3], expected, atol=1e-4)
            tokens = [f"<{token}>" for token in logits.argmax(-1).tolist()]
            assert found.likeliest[:, layer].tolist() == tokens
    assert found.states.shape == (3, 3, 32)
    assert found.states.dtype == np.float32


def test_what_is_at_hand_is_used() -> None:
    loaded = own("llama")
    step = answer_step(loaded.model, TOKENIZED)
    digits, head = first_digits(loaded.tokenizer), output_head(step)
    again = layer_readout(loaded, TOKENIZED, digits=digits, head=head, step=step)
    np.testing.assert_array_equal(again.digits, layer_readout(loaded, TOKENIZED).digits)
    with pytest.raises(Refusal, match="tokens for 10 digits, came 9"):
        layer_readout(loaded, TOKENIZED, digits=digits[1:])
