"""The block with the text before a token is the block without it under a rank-one update."""

from typing import Any

import numpy as np
import pytest
import torch

from probes.implicit_update import _updated, implicit_update
from tests.probes.tiny_models import loaded, random_ids, tiny_model

BEFORE, QUERY = random_ids(9, seed=3).numpy(), random_ids(4, seed=4).numpy()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "mistral-wide-window"])
def test_the_identity_holds(name: str, layer: int) -> None:
    """Plain MLP with biases (GPT-2) and gated ones, to rounding; without it the output moves."""
    found = implicit_update(loaded(tiny_model(name)), BEFORE, QUERY, layer=layer)
    assert found.reason == ""
    assert found.layer == layer
    assert found.residual < 2e-6
    assert found.moved > 0.05
    assert found.update > 1e-3


def test_a_wrong_update_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With z_0 in place of z_1 the update is zero, and the MLP's part of the change is missed."""
    monkeypatch.setattr(
        "probes.implicit_update._updated",
        lambda matrices, first, alone, with_text: _updated(matrices, first, alone, alone),
    )
    found = implicit_update(loaded(tiny_model("llama")), BEFORE, QUERY)
    assert found.residual > 0.01


def test_only_half_of_a_gated_mlp_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "probes.implicit_update._updated",
        lambda matrices, first, *rest: _updated(matrices, first[:1], *rest),
    )
    found = implicit_update(loaded(tiny_model("llama")), BEFORE, QUERY)
    assert found.residual > 0.01


def test_against_the_formula_by_hand() -> None:
    """GPT-2's first block from its own parts, in float64 and without hooks."""
    model: Any = tiny_model("gpt2").double()
    block = model.transformer.h[0]

    def parts(tokens: Any) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.as_tensor(tokens)[None]
        x = model.transformer.wte(ids) + model.transformer.wpe(torch.arange(ids.shape[1]))[None]
        mask = torch.full((ids.shape[1],) * 2, -torch.inf, dtype=x.dtype).triu(1)[None, None]
        u = x + block.attn(block.ln_1(x), attention_mask=mask)[0]
        return u[0, -1], block.ln_2(u)[0, -1]

    u0, z0 = parts(QUERY)
    u1, z1 = parts(np.r_[BEFORE, QUERY])
    weight = block.mlp.c_fc.weight  # (in, out)
    change = torch.outer(z0, (z1 - z0) @ weight) / z0.dot(z0)

    def mlp(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = block.mlp.c_proj(block.mlp.act(z @ w + block.mlp.c_fc.bias))
        return made

    made, wanted = u1 + mlp(z0, weight + change), u1 + mlp(z1, weight)
    np.testing.assert_allclose(made, wanted, rtol=1e-10)
    found = implicit_update(loaded(model), BEFORE, QUERY)
    moved = (u0 + mlp(z0, weight) - wanted).norm() / wanted.norm()
    assert found.residual < 1e-12
    assert found.moved == pytest.approx(float(moved), rel=1e-9)
    assert found.update == pytest.approx(float(change.norm() / weight.norm()), rel=1e-9)


def test_the_weights_are_back_bit_by_bit() -> None:
    model = tiny_model("llama")
    before = {name: p.clone() for name, p in model.named_parameters()}
    storage = {name: p.data_ptr() for name, p in model.named_parameters()}
    implicit_update(loaded(model), BEFORE, QUERY)
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name])
        assert p.data_ptr() == storage[name]


@pytest.mark.parametrize(
    ("name", "said"),
    [("gpt-oss", "no MLP of plain matrices"), ("gemma2", "added up")],
)
def test_a_block_of_another_form_is_named(name: str, said: str) -> None:
    """Experts that are chosen; a norm behind attention and MLP."""
    found = implicit_update(loaded(tiny_model(name)), BEFORE, QUERY)
    assert np.isnan(found.residual)
    assert said in found.reason
