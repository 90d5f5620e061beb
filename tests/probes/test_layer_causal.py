"""Layer-causal descent against each layer's loss differentiated by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.finetune import fine_tune
from probes.finetune_loss import lesson
from probes.layer_causal import layer_causal_backward
from prompts.refusal import Refusal
from tests.probes.finetune_models import KEYS_AND_VALUES, closeness, demonstrations, tiny_family
from tests.probes.tiny_models import loaded

DEMONSTRATIONS = demonstrations(9, 12, 7)
ANSWERS = (slice(7, 8), slice(9, 11), slice(6, 7))
RATE = 1e-3
# Blocks, attention's output projection within a block, and the last norm, by hand.
PLACES: dict[str, Callable[[Any], tuple[Any, Callable[[Any], Any], Any]]] = {
    "gpt2": lambda m: (m.transformer.h, lambda b: b.attn.c_proj, m.transformer.ln_f),
    "llama": lambda m: (m.model.layers, lambda b: b.self_attn.o_proj, m.model.norm),
    "xglm": lambda m: (m.model.layers, lambda b: b.self_attn.out_proj, m.model.layer_norm),
    "gpt-neox": lambda m: (
        m.gpt_neox.layers,
        lambda b: b.attention.dense,
        m.gpt_neox.final_layer_norm,
    ),
    "phi3": lambda m: (m.model.layers, lambda b: b.self_attn.o_proj, m.model.norm),
}


def slow_gradients(model: Any, name: str, readout: str) -> tuple[list[float], dict[str, Tensor]]:
    """Each layer's loss differentiated with respect to its own weights only.

    They reach the block's output through the block alone, so nothing needs to be detached.
    """
    blocks, output_of, norm = PLACES[name](model)
    seen: dict[int, Tensor] = {}
    hooks = []
    for layer, block in enumerate(blocks):
        at = block if readout == "block" else output_of(block)

        def read(_: nn.Module, __: Any, output: Any, layer: int = layer) -> None:
            seen[layer] = output[0] if isinstance(output, tuple) else output

        hooks.append(at.register_forward_hook(read))
    ids = torch.as_tensor(DEMONSTRATIONS[0])[None]
    endings = KEYS_AND_VALUES[name].endings
    some = {n: p.requires_grad_(True) for n, p in model.named_parameters() if n.endswith(endings)}
    model(input_ids=ids)
    for hook in hooks:
        hook.remove()
    losses: list[float] = []
    gradients: dict[str, Tensor] = {}
    for layer in range(len(blocks)):
        logits = model.get_output_embeddings()(norm(seen[layer]))
        loss = nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
        own = [n for n in some if f".{layer}." in n]
        found = torch.autograd.grad(loss, [some[n] for n in own], retain_graph=True)
        gradients.update(zip(own, found, strict=True))
        losses.append(float(loss.detach()))
    for parameter in some.values():
        parameter.requires_grad_(False)
    return losses, gradients


@pytest.mark.parametrize("readout", ["block", "attention"])
@pytest.mark.parametrize("name", PLACES)
def test_gradients_equal_those_of_each_layer_by_itself(name: str, readout: Any) -> None:
    model = tiny_family(name, double=True)
    losses, gradients = slow_gradients(model, name, readout)
    for layer_loss, share in (("sum", 1.0), ("mean", 0.5)):
        some = [model.get_parameter(n).requires_grad_(True) for n in gradients]
        taught = lesson(DEMONSTRATIONS[0], slice(None))
        found = layer_causal_backward(
            model,
            taught,
            readout=readout,
            layer_loss=layer_loss,  # type: ignore[arg-type]
        )
        assert found.by_layer is not None
        np.testing.assert_allclose(found.by_layer, losses, atol=closeness(name, 1e-12, 1e-5))
        for parameter, wanted in zip(some, gradients.values(), strict=True):
            torch.testing.assert_close(
                parameter.grad,
                share * wanted,
                rtol=closeness(name, 1e-9, 1e-4),
                atol=closeness(name, 1e-12, 1e-5),
            )
            parameter.grad = None
            parameter.requires_grad_(False)


def test_the_last_layers_gradient_is_that_of_plain_descent() -> None:
    model = tiny_family("llama", double=True)
    plain = fine_tune(loaded(model), DEMONSTRATIONS[:1], ANSWERS[:1], rate=RATE)
    causal = fine_tune(
        loaded(model),
        DEMONSTRATIONS[:1],
        ANSWERS[:1],
        method="lcgd",
        rate=RATE,
        step_norm="shared",
    )
    assert causal.update_norms[0, 1] == pytest.approx(plain.update_norms[0, 1], rel=1e-9)
    assert causal.update_norms[0, 0] != pytest.approx(plain.update_norms[0, 0], rel=1e-3)
    assert causal.losses[0] == pytest.approx(plain.losses[0], abs=1e-12)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_matched_steps_have_the_norms_of_plain_descent_and_their_own_direction(name: str) -> None:
    model = tiny_family(name, double=True)
    plain = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE)
    matched = fine_tune(
        loaded(model), DEMONSTRATIONS, ANSWERS, method="lcgd", rate=RATE, matched_to=plain
    )
    np.testing.assert_allclose(matched.update_norms, plain.update_norms, rtol=1e-9)
    again = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, method="lcgd", rate=RATE)
    np.testing.assert_array_equal(again.update_norms, matched.update_norms)
    _, gradients = slow_gradients(model, name, "block")
    one = fine_tune(loaded(model), DEMONSTRATIONS[:1], ANSWERS[:1], method="lcgd", rate=RATE)
    parameter = next(iter(gradients))
    with one.applied():
        after = model.get_parameter(parameter).clone()
    change = (model.get_parameter(parameter) - after).flatten()
    wanted = gradients[parameter].masked_fill(change.view_as(gradients[parameter]) == 0, 0.0)
    cosine = nn.functional.cosine_similarity(change, wanted.flatten(), dim=0)
    assert float(cosine) == pytest.approx(1, abs=1e-9)


def test_norms_of_another_run_are_refused() -> None:
    model = tiny_family("llama")
    others = demonstrations(9, 12, 7, seed=5)
    for plain in (
        fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE / 2),
        fine_tune(loaded(model), others, ANSWERS, rate=RATE),
    ):
        with pytest.raises(Refusal, match="needed the norms of a 'gd' run"):
            fine_tune(
                loaded(model), DEMONSTRATIONS, ANSWERS, method="lcgd", rate=RATE, matched_to=plain
            )
