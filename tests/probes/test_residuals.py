"""The residual stream against the models' own hidden states, and its end against the logits."""

from typing import Any

import numpy as np
import pytest
import torch

from probes.answer_step import answer_step
from probes.families import FAMILIES, tiny_config
from probes.residuals import layers_of, output_head, residual_stream
from prompts.refusal import Refusal
from tests.probes.test_answer_step import last_logits, whole_prompts
from tests.probes.tiny_models import build, hand_made_context, tiny_model

TOKENIZED = hand_made_context()
NAMES = ("llama", "gpt2", "gemma2", "mistral", "qwen3-next", "llama-dynamic", "gpt-neo")


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_is_the_hidden_states_of_whole_prompts(name: str) -> None:
    """All but the last, which the model returns behind its final norm."""
    model = tiny_model(name)
    stream = residual_stream(answer_step(model, TOKENIZED))
    with torch.no_grad():
        ids = whole_prompts(TOKENIZED)
        hidden = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    assert stream.states.shape == (3, 3, 32)
    for place in (0, 1):
        expected = hidden[place][:, -1]
        torch.testing.assert_close(stream.states[:, place], expected, atol=1e-4, rtol=1e-4)
    expected = last_logits(model, TOKENIZED)
    torch.testing.assert_close(stream.logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", [*NAMES, "cohere2", "granite", "recurrent-gemma", "opt"])
def test_the_end_of_the_stream_gives_the_logits(name: str) -> None:
    model = build(tiny_config(FAMILIES[name])) if name in FAMILIES else tiny_model(name)
    if name == "granite":
        model.config.logits_scaling = 4.0
    step = answer_step(model, TOKENIZED)
    stream = residual_stream(step)
    found = output_head(step).logits(stream.states[:, -1])
    expected = last_logits(model, TOKENIZED)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_earlier_layers_are_read_as_if_they_were_the_last() -> None:
    model = tiny_model("gemma2")
    step = answer_step(model, TOKENIZED)
    states = residual_stream(step).states
    found = output_head(step).logits(states)
    with torch.no_grad():
        raw = model.lm_head(model.model.norm(states[:, 1]))
    expected = 30.0 * torch.tanh(raw / 30.0)
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-5)
    assert not torch.allclose(raw, expected, atol=1e-2)


def test_families_with_several_streams_or_another_end_are_refused() -> None:
    model = build(tiny_config(FAMILIES["gemma3n"]))
    with pytest.raises(Refusal, match="needed one stream of states"):
        residual_stream(answer_step(model, TOKENIZED))
    model = tiny_model("llama")
    plain = model.lm_head.forward
    shift = torch.randn(64, generator=torch.Generator().manual_seed(0))

    def moved(hidden: Any) -> Any:
        return plain(hidden) + shift * (hidden.shape[1:-1] == (1,))

    model.lm_head.forward = moved
    with pytest.raises(Refusal, match="those of the family 'llama' are made otherwise"):
        output_head(answer_step(model, TOKENIZED))
    del model.model.layers
    with pytest.raises(Refusal, match="a list of 2 layers, came none"):
        layers_of(model)
