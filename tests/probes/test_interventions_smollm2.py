"""Heads of the real SmolLM2 set to other values, against transformer-lens' own hooks."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from probes.capture import capture
from probes.head_values import head_values
from probes.interventions import replace_heads
from probes.models import load_model

pytestmark = pytest.mark.model

TEXTS = ("1, 2, 3, 4, 5, 6, 7,", "9, 8, 7, 6, 5, 4, 3,")
LAYER, HEADS = 3, [1, 5]


def test_zero_mean_and_patch_are_those_of_transformer_lens() -> None:
    """The bridge rewires the model in place, so our results are taken before it."""
    own = load_model("smollm2-135m")
    ids = torch.tensor([own.tokenizer(text).input_ids for text in TEXTS])
    last = torch.tensor([ids.shape[1] - 1])
    values = head_values(own, ids, last)
    plain = capture(own, ids, last).logits[:, 0]
    ours = []
    for value in ("zero", values.mean(), values.of(1)):
        with replace_heads(own, ["L3H1", "blocks.3.attn.hook_z[5]"], value, positions=last):
            ours.append(capture(own, ids, last).logits[:, 0])
    bridge: Any = TransformerBridge.boot_transformers(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        hf_model=own.model,
        tokenizer=copy.deepcopy(own.tokenizer),
    )
    z = values.values[LAYER][:, 0, HEADS]
    for found, new in zip(ours, (torch.zeros(()), z.mean(0), z[1]), strict=True):

        def change(out: Tensor, hook: Any, value: Tensor = new) -> Tensor:
            out = out.clone()
            out[:, -1, HEADS] = value
            return out

        with torch.no_grad():
            expected = bridge.run_with_hooks(
                ids, fwd_hooks=[(f"blocks.{LAYER}.attn.hook_z", change)]
            )[:, -1]
        largest = float(expected.abs().max())
        torch.testing.assert_close(found, expected, atol=1e-5 * largest, rtol=0)
        assert float((found - plain).abs().max()) > 1e-3 * largest
