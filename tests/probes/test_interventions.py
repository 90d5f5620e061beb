"""Heads set to other values: against transformer-lens, with caches, and what is refused."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer, DynamicCache

from probes.capture import capture
from probes.head_values import HeadValues, head_grid, head_values, output_projections
from probes.interventions import replace_heads
from probes.rows import context_rows
from prompts.refusal import Refusal
from tests.probes.tiny_models import (
    hand_made_context,
    loaded,
    random_ids,
    tiny_model,
)
from tests.prompts.small_tokenizers import single_digits

LAST = torch.tensor([9])
SOME = torch.tensor([2, 5, 9])
BRIDGED = {"gpt2": "gpt2", "llama": "meta-llama/Llama-3.2-1B"}


def logits_of(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=ids, use_cache=False).logits
    return found


@pytest.fixture(scope="module", params=BRIDGED)
def bridged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model, and transformer-lens' bridge on a copy, which it rewires in place."""
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    single_digits().save_pretrained(folder)
    model = tiny_model(request.param)
    own = copy.deepcopy(model)
    own.config.architectures = [type(model).__name__]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    name = BRIDGED[request.param]
    bridge = TransformerBridge.boot_transformers(name, hf_model=own, tokenizer=tokenizer)
    return model, bridge


def bridge_logits(bridge: Any, ids: Tensor, layer: int, change: Callable[[Tensor], None]) -> Tensor:
    """Logits with `hook_z` (batch, position, head, dim) of one layer changed in place."""

    def hook(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        change(z)
        return z

    with torch.no_grad():
        found: Tensor = bridge.run_with_hooks(
            ids, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", hook)]
        )
    return found


def bridge_z(bridge: Any, ids: Tensor, layer: int) -> Tensor:
    name = f"blocks.{layer}.attn.hook_z"
    with torch.no_grad():
        _, cache = bridge.run_with_cache(ids, names_filter=lambda n: n == name)
    found: Tensor = cache[name]
    return found


def test_values_are_transformer_lens_hook_z(bridged: Any) -> None:
    model, bridge = bridged
    ids = random_ids(3, 10)
    values = head_values(model, ids, SOME)
    for layer in (0, 1):
        z = bridge_z(bridge, ids, layer)[:, SOME]
        torch.testing.assert_close(values.values[layer], z, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layer", [0, 1])
def test_zero_mean_and_patch_are_those_of_transformer_lens(bridged: Any, layer: int) -> None:
    model, bridge = bridged
    ids = random_ids(3, 10)
    z, heads = bridge_z(bridge, ids, layer), [(layer, 1), (layer, 3)]
    values = head_values(model, ids, SOME)

    def to_zero(out: Tensor) -> None:
        for p in SOME.tolist():
            out[:, p, [1, 3]] = 0

    def to_mean(out: Tensor) -> None:
        for p in SOME.tolist():
            out[:, p, [1, 3]] = z[:, p, [1, 3]].mean(0)

    def to_second(out: Tensor) -> None:
        for p in SOME.tolist():
            out[:, p, [1, 3]] = z[1, p, [1, 3]]

    cases = ((to_zero, "zero"), (to_mean, values.mean()), (to_second, values.of(1)))
    for change, value in cases:
        expected = bridge_logits(bridge, ids, layer, change)
        with replace_heads(model, heads, value, positions=SOME):  # type: ignore[arg-type]
            found = logits_of(model, ids)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(found, logits_of(model, ids), atol=1e-3)


def test_the_mean_over_contexts_by_hand() -> None:
    """Two contexts, two positions, one head of two numbers: (1, 2) and (5, 4) have mean (3, 3)."""
    z = torch.tensor([[[[1.0, 2.0]], [[0.0, 8.0]]], [[[5.0, 4.0]], [[2.0, 0.0]]]])
    values = HeadValues({4: z}, torch.tensor([3, 7]))
    assert values.mean().values[4].tolist() == [[[[3.0, 3.0]], [[1.0, 4.0]]]]
    assert values.of(1).values[4].tolist() == [[[[5.0, 4.0]], [[2.0, 0.0]]]]
    assert values.at(torch.tensor([7])).values[4].tolist() == [[[[0.0, 8.0]]], [[[2.0, 0.0]]]]


def test_each_prompt_takes_its_own_context_s_value() -> None:
    """The values of contexts b, given to prompts a: each layer-0 head equals that of b."""
    model = tiny_model("llama")
    a, b = random_ids(2, 10), random_ids(2, 10, seed=2)
    of_b = head_values(model, b, LAST)
    with replace_heads(model, ["L0H2"], of_b):
        found = head_values(model, a, LAST).values[0]
    torch.testing.assert_close(found[:, :, 2], of_b.values[0][:, :, 2])
    torch.testing.assert_close(found[:, :, 1], head_values(model, a, LAST).values[0][:, :, 1])


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "qwen3-next", "llama-dynamic"])
@pytest.mark.parametrize("position", [28, 10])
def test_shared_prefixes_are_changed_as_whole_prompts_are(
    name: str, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, cached, expanded and whole runs, at the last position and inside the prefix."""
    model, tokenized = tiny_model(name), hand_made_context()
    layer = head_grid(model).layers[0]
    values = head_values(model, random_ids(1, 29, seed=7), torch.tensor([position]))
    plain = context_rows(loaded(model), tokenized, answer_tokens=0)
    with replace_heads(model, [(layer, 1), (layer, 2)], values):
        rows = context_rows(loaded(model), tokenized, answer_tokens=2, block=2)
        monkeypatch.setattr("probes.rows.sharing", lambda *_: "whole")
        whole = context_rows(loaded(model), tokenized, answer_tokens=2)
    assert rows.answers == whole.answers
    assert rows.prefix is not None
    assert whole.prefix is not None
    np.testing.assert_allclose(rows.query, whole.query, atol=1e-4)
    np.testing.assert_allclose(rows.prefix, whole.prefix, atol=1e-4)
    if name in ("gpt2", "llama") and position == 28:
        assert not np.allclose(rows.query, plain.query, atol=1e-2)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_a_cache_is_gone_on_from(name: str) -> None:
    model, ids = tiny_model(name), random_ids(2, 10)
    with replace_heads(model, ["L0H1"], "zero", positions=LAST):
        whole = logits_of(model, ids)[:, -1]
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :6], past_key_values=cache)
    with replace_heads(model, ["L0H1"], "zero", positions=LAST):
        found = capture(model, ids[:, 6:], LAST, cache=cache).logits[:, 0]
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)
    plain = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :6], past_key_values=plain)
        with replace_heads(model, ["L0H1"], "zero", positions=LAST):
            found = model(input_ids=ids[:, 6:], past_key_values=plain).logits[:, -1]
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)


def hooks_of(model: Any) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


def test_hooks_go_whatever_ends_the_block() -> None:
    model = tiny_model("llama")
    with replace_heads(model, ["L0H1", "L0H2"], "zero"):
        assert hooks_of(model) == 2
        logits_of(model, random_ids(1, 4))
    assert hooks_of(model) == 0
    with pytest.raises(IndexError), replace_heads(model, ["L0H1"], "zero"):
        logits_of(model, torch.full((1, 4), 99))
    assert hooks_of(model) == 0
    with pytest.raises(IndexError):
        head_values(model, torch.full((1, 4), 99), torch.tensor([0]))
    with pytest.raises(Refusal), replace_heads(model, ["L0H1", "L0H9"], "zero"):
        pass
    assert hooks_of(model) == 0


def test_a_position_that_no_forward_reached_is_refused() -> None:
    model, ids = tiny_model("llama"), random_ids(1, 10)
    said = r"over positions \[12\] inside the block, came one over positions 0 to 9"
    with (
        pytest.raises(Refusal, match=said),
        replace_heads(model, ["L0"], "zero", positions=[3, 12]),
    ):
        logits_of(model, ids)
    with (
        pytest.raises(Refusal, match="needed a forward inside the block, came none"),
        replace_heads(model, ["L0"], "zero"),
    ):
        pass


def test_what_does_not_fit_is_refused() -> None:
    model, ids = tiny_model("llama"), random_ids(3, 10)
    values = head_values(model, ids, SOME)
    cases: list[tuple[Any, Any, str]] = [
        ("mean", None, "'zero' or head values"),
        (values, [4], r"at positions \[4\], came \[2, 5, 9\]"),
        ("zero", [-1], r"from 0 on, came \[-1\]"),
        ("zero", [], "needed positions"),
        (HeadValues({0: values.values[0]}, SOME), None, "values of layer 1, came layers"),
    ]
    for to, positions, said in cases:
        block = replace_heads(model, ["L1H0"], to, positions=positions)
        with pytest.raises(Refusal, match=said), block:
            logits_of(model, ids)
    with pytest.raises(Refusal, match="1 or 2 contexts"), replace_heads(model, ["L1"], values):
        logits_of(model, ids[:2])
    with pytest.raises(Refusal, match="positions from 0 to 9"):
        head_values(model, ids, torch.tensor([10]))


def test_a_family_without_a_known_projection_is_refused_by_name() -> None:
    model = tiny_model("llama")
    attention = model.model.layers[1].self_attn
    attention.mixer = attention.o_proj
    del attention.o_proj
    with pytest.raises(Refusal, match=r"'llama' under one of o_proj.*layer 1 has q_proj"):
        output_projections(model)
    del model.model.layers[0].self_attn
    with pytest.raises(Refusal, match="2 attention modules of the family 'llama', came 1"):
        output_projections(model)
    with pytest.raises(Refusal, match="'mamba', which has none"):
        output_projections(tiny_model("mamba"))
