"""What capture cannot do right it refuses, in one sentence that says what was needed."""

from typing import Any

import pytest
import torch
from transformers import StaticCache

from probes.capture import capture
from probes.model_facts import attention_path
from prompts.refusal import Refusal
from tests.probes.tiny_models import random_ids, tiny_model, windowed

POSITIONS = torch.tensor([2, 5, 9])


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_below_one_token_is_refused(window: int) -> None:
    with pytest.raises(Refusal, match=f"at least 1 token, or null for none, came {window}"):
        capture(windowed(window), random_ids(1, 10), torch.tensor([9]))


@pytest.mark.parametrize("positions", [[], [-1], [10], [3, 12]])
def test_positions_outside_the_prompt_are_refused(positions: list[int]) -> None:
    with pytest.raises(Refusal, match="needed positions from 0 to 9, came"):
        capture(tiny_model("llama"), random_ids(1, 10), torch.tensor(positions))


def test_a_model_without_attention_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="attention layers, came 'mamba'"):
        capture(tiny_model("mamba"), random_ids(1, 10), POSITIONS)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(Refusal, match="evaluation mode, came one in training mode"):
        capture(tiny_model("llama").train(), random_ids(1, 10), POSITIONS)


def test_a_cache_of_fixed_size_is_refused() -> None:
    model = tiny_model("llama")
    cache = StaticCache(config=model.config, max_cache_len=16)
    with pytest.raises(Refusal, match="needed a cache that grows, came 'StaticCache'"):
        capture(model, random_ids(1, 10), POSITIONS, cache=cache)


def test_a_family_that_bypasses_the_interface_needs_eager_attention() -> None:
    """Its fused form hands out no map, or a wrong one."""
    model = tiny_model("gpt-neo", attention="eager")
    assert attention_path(model) == "eager"
    model.config._attn_implementation = "sdpa"
    with pytest.raises(Refusal, match="loaded with attention='eager'"):
        capture(model, random_ids(1, 10), POSITIONS)


def test_a_layer_that_is_not_called_is_refused_by_number() -> None:
    model = tiny_model("llama", attention="sdpa")
    attention: Any = model.model.layers[1].self_attn
    attention.config = type(attention.config)(**attention.config.to_dict())
    attention.config._attn_implementation = "eager"
    with pytest.raises(Refusal, match="layer 1: needed one call of the attention function, came 0"):
        capture(model, random_ids(1, 10), POSITIONS)
