"""Fine-tuning against autograd by hand, and the base weights afterwards."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.finetune import fine_tune
from probes.finetune_recipe import Diverged
from probes.finetune_result import FineTuned
from prompts.refusal import Refusal
from tests.probes.finetune_models import (
    KEYS_AND_VALUES,
    closeness,
    demonstrations,
    tiny_family,
    weights_hash,
)
from tests.probes.tiny_models import loaded

DEMONSTRATIONS = demonstrations(9, 12, 7)
ANSWERS = (slice(7, 8), slice(9, 11), slice(6, 7))
RATE = 1e-3
FIVE = ("gpt2", "llama", "xglm", "gpt-neox", "phi3")


def tuned_state(model: Any, tuned: FineTuned) -> dict[str, Tensor]:
    with tuned.applied():
        return {name: p.detach().clone() for name, p in model.named_parameters()}


def by_hand(
    model: Any, names: list[str], *, label: bool = False, steps: int = 3
) -> dict[str, Tensor]:
    """The named parameters after SGD written out, through the model's own loss and autograd."""
    parameters = dict(model.named_parameters())
    some = [parameters[name].requires_grad_(True) for name in names]
    for tokens, answer in list(zip(DEMONSTRATIONS, ANSWERS, strict=True))[:steps]:
        ids = torch.as_tensor(tokens)[None]
        targets = torch.full_like(ids, -100)
        counted = answer if label else slice(1, None)
        targets[:, counted] = ids[:, counted]
        logits = model(input_ids=ids).logits
        loss = nn.functional.cross_entropy(logits[0, :-1], targets[0, 1:])
        with torch.no_grad():
            for parameter, gradient in zip(some, torch.autograd.grad(loss, some), strict=True):
                parameter -= RATE * gradient
    return dict(zip(names, some, strict=True))


def plain_loss(model: Any, tokens: Any) -> float:
    """Minus the mean log-probability of every token but the first."""
    with torch.no_grad():
        logp = model(input_ids=torch.as_tensor(tokens)[None]).logits[0].log_softmax(-1)
    return -float(np.mean([float(logp[i - 1, tokens[i]]) for i in range(1, len(tokens))]))


def key_value_names(model: Any, name: str) -> list[str]:
    endings = KEYS_AND_VALUES[name].endings
    return [n for n, _ in model.named_parameters() if n.endswith(endings)]


@pytest.mark.parametrize("name", KEYS_AND_VALUES)
def test_descent_moves_keys_and_values_and_not_one_bit_of_the_rest(name: str) -> None:
    model = tiny_family(name, scale=0.3)
    before = {n: p.clone() for n, p in model.named_parameters()}
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=0.1)
    entries = KEYS_AND_VALUES[name]
    for parameter, after in tuned_state(model, tuned).items():
        moved = after != before[parameter]
        may = torch.zeros_like(moved)
        if parameter.endswith(entries.endings):
            axis = entries.axis if after.dim() > 1 else 0
            rows = range(after.shape[axis]) if entries.rows is None else entries.rows
            may.index_fill_(axis, torch.tensor(list(rows)), True)
        assert not (moved & ~may).any(), parameter
        if after.dim() > 1 and may.any():
            assert moved[may].float().mean() > 0.9, parameter


@pytest.mark.parametrize("label", [False, True])
@pytest.mark.parametrize("name", FIVE)
def test_descent_equals_autograd_by_hand(name: str, label: bool) -> None:
    model, copy = tiny_family(name, double=True), tiny_family(name, double=True)
    tuned = fine_tune(
        loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE, loss_tokens="label" if label else "all"
    )
    entries, atol = KEYS_AND_VALUES[name], closeness(name, 1e-12, 1e-6)
    start = dict(model.named_parameters())
    after = tuned_state(model, tuned)
    names = key_value_names(copy, name)
    if entries.rows is None:
        for parameter, wanted in by_hand(copy, names, label=label).items():
            torch.testing.assert_close(after[parameter], wanted.detach(), rtol=0, atol=atol)
        return
    # By hand the queries of a fused matrix move too, so only one step can be compared.
    tuned = fine_tune(
        loaded(model),
        DEMONSTRATIONS[:1],
        ANSWERS[:1],
        rate=RATE,
        loss_tokens="label" if label else "all",
    )
    after = tuned_state(model, tuned)
    for parameter, wanted in by_hand(copy, names, label=label, steps=1).items():
        axis = entries.axis if wanted.dim() > 1 else 0
        rows = torch.tensor(entries.rows)
        ours, theirs = (x.detach().index_select(axis, rows) for x in (after[parameter], wanted))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
        assert not torch.equal(ours, start[parameter].index_select(axis, rows))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_whole_model_moves_as_autograd_says(name: str) -> None:
    model, copy = tiny_family(name, double=True), tiny_family(name, double=True)
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, method="whole", rate=RATE)
    wanted = by_hand(copy, [n for n, _ in copy.named_parameters()])
    after = tuned_state(model, tuned)
    for parameter, value in wanted.items():
        torch.testing.assert_close(after[parameter], value.detach(), rtol=0, atol=1e-11)


def test_tied_embeddings_move_once_and_stay_tied() -> None:
    model = tiny_family("gpt2")
    assert model.lm_head.weight is model.transformer.wte.weight
    before = model.lm_head.weight.clone()
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, method="whole", rate=RATE)
    with tuned.applied():
        assert torch.equal(model.lm_head.weight, model.transformer.wte.weight)
        assert not torch.equal(model.lm_head.weight, before)
    assert torch.equal(model.lm_head.weight, before)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert all(step.other_norm > 0 for step in tuned.steps)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_only_the_values_of_one_layer_move(name: str) -> None:
    model = tiny_family(name)
    before = {n: p.clone() for n, p in model.named_parameters()}
    tuned = fine_tune(
        loaded(model), DEMONSTRATIONS, ANSWERS, method="value-layer", layer=1, rate=RATE
    )
    moved = {n: x != before[n] for n, x in tuned_state(model, tuned).items()}
    changed = [n for n, entries in moved.items() if entries.any()]
    if name == "llama":
        assert changed == ["model.layers.1.self_attn.v_proj.weight"]
    else:
        assert changed == ["transformer.h.1.attn.c_attn.weight"]
        # Outputs 64 to 95 are the values.
        assert not moved[changed[0]][:, :64].any()
        assert moved[changed[0]][:, 64:].all()
    assert tuned.layers == (1,)


def test_losses_and_norms_are_those_of_the_steps() -> None:
    model = tiny_family("llama", double=True)
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE)
    wanted = [plain_loss(model, tokens) for tokens in DEMONSTRATIONS]
    np.testing.assert_allclose(tuned.base_losses, wanted, atol=1e-12)
    assert tuned.losses[0] == pytest.approx(wanted[0], abs=1e-12)
    assert tuned.losses[1] != pytest.approx(wanted[1], abs=1e-6)
    copy = tiny_family("llama", double=True)
    by_hand(copy, key_value_names(copy, "llama"), steps=1)
    for layer in range(2):
        square = 0.0
        for name in key_value_names(copy, "llama"):
            if f"layers.{layer}." in name:
                change = copy.get_parameter(name).detach() - model.get_parameter(name)
                square += float((change**2).sum())
        assert tuned.update_norms[0, layer] == pytest.approx(math.sqrt(square), rel=1e-9)
    assert tuned.update_norms.shape == (3, 2)
    with tuned.applied():
        assert tuned.closing_loss == pytest.approx(plain_loss(model, DEMONSTRATIONS[-1]), abs=1e-12)


@pytest.mark.parametrize("method", ["gd", "lcgd", "whole", "value-layer"])
@pytest.mark.parametrize("name", FIVE)
def test_the_base_weights_are_the_very_same_afterwards(name: str, method: Any) -> None:
    model = tiny_family(name)
    before, pointers = weights_hash(model), [p.data_ptr() for p in model.parameters()]
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, method=method, layer=0, rate=RATE)
    assert weights_hash(model) == before
    with tuned.applied():
        assert weights_hash(model) != before
    assert weights_hash(model) == before
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert all(p.grad is None and not p.requires_grad for p in model.parameters())


def test_the_base_weights_are_back_when_something_fails() -> None:
    model = tiny_family("gpt2")
    before = weights_hash(model)

    def fail(step: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE, record=fail)
    assert weights_hash(model) == before
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE)
    with pytest.raises(ZeroDivisionError), tuned.applied():
        _ = 1 / 0
    assert weights_hash(model) == before


@pytest.mark.parametrize(
    ("method", "rate"), [("gd", 1e30), ("lcgd", 1e30), ("whole", 1e30), ("whole", 1e3)]
)
def test_a_rate_that_diverges_is_named(method: Any, rate: float) -> None:
    model = tiny_family("llama", scale=0.3)
    before = weights_hash(model)
    with pytest.raises(Diverged, match=re.escape(f"at rate {rate:g}")) as refused:
        fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, method=method, rate=rate)
    assert 1 <= refused.value.step <= 3
    assert not refused.value.loss < math.log(64)
    assert weights_hash(model) == before


def test_divergence_in_the_last_step_is_named() -> None:
    model = tiny_family("gpt2", scale=0.3)
    with pytest.raises(Diverged) as refused:
        fine_tune(loaded(model), DEMONSTRATIONS[:1], ANSWERS[:1], method="whole", rate=1e6)
    assert refused.value.step == 1


def test_online_tokens_are_those_before_the_step() -> None:
    model = tiny_family("llama", double=True)
    tuned = fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, rate=RATE, online=True)
    first = fine_tune(loaded(model), DEMONSTRATIONS[:1], ANSWERS[:1], rate=RATE)
    seen: dict[str, Tensor] = {}
    attention = model.model.layers[1].self_attn

    def read(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen["inputs"], seen["queries"] = inputs[0][0], output[0]

    hook = attention.q_proj.register_forward_hook(read)
    with first.applied(), torch.no_grad():
        model(input_ids=torch.as_tensor(DEMONSTRATIONS[1])[None])
    hook.remove()
    online = tuned.steps[1].online
    assert online is not None
    assert online.queries.shape == (2, 12, 4, 8)
    np.testing.assert_allclose(online.inputs[1], seen["inputs"].numpy(), atol=1e-12)
    np.testing.assert_allclose(
        online.queries[1].reshape(12, 32), seen["queries"].numpy(), atol=1e-12
    )


def test_the_dual_form_of_a_value_matrix_is_its_update() -> None:
    """W x = W_0 x + sum_i e_i <x_i, x>, e_i: minus rate times the loss's gradient at W x_i.

    (arXiv 2202.05798, theorem 1.) Token by token, with the inputs recorded before each step.
    """
    model = tiny_family("llama", double=True)
    values = model.model.layers[1].self_attn.v_proj
    errors: list[Tensor] = []

    def read(_: nn.Module, __: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda gradient: errors.append(-RATE * gradient[0])
            )

    hook = values.register_forward_hook(read)
    tuned = fine_tune(
        loaded(model),
        DEMONSTRATIONS,
        ANSWERS,
        method="value-layer",
        layer=1,
        rate=RATE,
        online=True,
    )
    hook.remove()
    x = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dual = values.weight @ x
    for step, error in zip(tuned.steps, errors, strict=True):
        assert step.online is not None
        for x_i, e_i in zip(torch.as_tensor(step.online.inputs[1]), error, strict=True):
            dual = dual + e_i * (x_i @ x)
    with tuned.applied():
        torch.testing.assert_close(values.weight @ x, dual, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": 0.0}, "rate above 0"),
        ({"rate": math.nan}, "rate above 0"),
        ({"method": "sgd"}, "unknown way of fine-tuning 'sgd'"),
        ({"loss_tokens": "some"}, "unknown choice of loss tokens"),
        ({"method": "value-layer", "layer": 7}, "attention layers"),
        ({"method": "value-layer"}, "attention layers"),
    ],
)
def test_what_cannot_be_learnt_is_refused(options: dict[str, Any], said: str) -> None:
    model = tiny_family("llama")
    with pytest.raises(Refusal, match=said):
        fine_tune(loaded(model), DEMONSTRATIONS, ANSWERS, **{"rate": RATE, **options})


def test_demonstrations_without_a_token_to_learn_are_refused() -> None:
    model = tiny_family("llama")
    with pytest.raises(Refusal, match="demonstration 1"):
        fine_tune(loaded(model), demonstrations(4, 1), (slice(1, 2), slice(0, 1)), rate=RATE)
    with pytest.raises(Refusal, match="needed demonstrations"):
        fine_tune(loaded(model), (), (), rate=RATE)
