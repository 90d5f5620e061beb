"""What holds of replaced heads on every family whose attention is captured."""

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probes.capture import capture
from probes.families import FAMILIES, tiny_config
from probes.head_values import head_grid, head_values, output_projections
from probes.interventions import replace_heads
from tests.probes.tiny_models import build, random_ids

CAPTURED = tuple(name for name, family in FAMILIES.items() if family.route != "refused")
POSITION_ADDED = ("gpt2", "gpt-neo", "gpt-bigcode", "opt", "xglm")
SOME = torch.tensor([2, 5, 9])


@functools.cache
def model_of(name: str) -> Any:
    return build(tiny_config(FAMILIES[name]))


def logits_of(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=ids, use_cache=False).logits
    return found


@pytest.mark.parametrize("name", CAPTURED)
def test_a_head_s_own_value_changes_nothing(name: str) -> None:
    model, ids = model_of(name), random_ids(2, 10)
    plain = capture(model, ids, SOME)
    with replace_heads(model, head_grid(model).all(), head_values(model, ids, SOME)):
        same = capture(model, ids, SOME)
    torch.testing.assert_close(same.logits, plain.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(same.scores, plain.scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CAPTURED)
def test_without_its_heads_a_layer_gives_the_projection_s_bias(name: str) -> None:
    """Against a hook that puts the bias (or zero) in place of the projection's whole output."""
    model, ids = model_of(name), random_ids(2, 10)
    layer, projection = sorted(output_projections(model).items())[-1]
    with replace_heads(model, [f"L{layer}"], "zero"):
        found = logits_of(model, ids)

    def removed(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        bias: Any = getattr(projection, "bias", None)
        return torch.zeros_like(output) if bias is None else bias.expand_as(output)

    handle = projection.register_forward_hook(removed)
    expected = logits_of(model, ids)
    handle.remove()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CAPTURED)
def test_a_head_is_the_head_that_capture_shows(name: str) -> None:
    """In layer 0, where a token's value depends on the token only: a head gives its weights'
    mean of what it gives on prompts of that one token (whose own weight is 1, less the sink's).

    Not so where position is added to the token, or where something stands before attention.
    """
    model, ids = model_of(name), random_ids(1, 10)
    if name in POSITION_ADDED or head_grid(model).layers[0] != 0:
        pytest.skip("a token's value depends on more than the token")
    found = head_values(model, ids, SOME).values[0][0]
    single = head_values(model, ids.T, torch.tensor([0])).values[0][:, 0]
    own = capture(model, ids.T, torch.tensor([0])).weights[:, 0, :, 0]
    weights = capture(model, ids, SOME).weights[0, 0]
    expected = torch.einsum("hqk,khd->qhd", weights, single / own)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CAPTURED)
def test_earlier_positions_and_weights_stay(name: str) -> None:
    model, ids = model_of(name), random_ids(2, 10)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    plain = logits_of(model, ids)
    with replace_heads(model, [f"L{head_grid(model).layers[0]}"], "zero", positions=[5]):
        found = logits_of(model, ids)
    torch.testing.assert_close(found[:, :5], plain[:, :5])
    assert not torch.allclose(found[:, 5], plain[:, 5], atol=1e-3)
    torch.testing.assert_close(logits_of(model, ids), plain, atol=0, rtol=0)
    assert all(bool((weights[key] == value).all()) for key, value in model.state_dict().items())
