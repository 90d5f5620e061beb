"""The gate passes models that are captured right, and names layer and figure of planted faults."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from probes import attention, forward, scores
from probes.attention import NAME, LayerCall, Recorder
from probes.capture import capture
from probes.continuation import CachedContinuation
from probes.parity import parity_gate
from probes.scores import KeyValues, ScoreRule
from prompts.refusal import Refusal
from tests.probes.tiny_models import WITH_ATTENTION, hand_made_context, loaded, tiny_model

TOKENIZED = hand_made_context()


@pytest.mark.parametrize("built", ["eager", "sdpa"])
@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_every_family_passes(name: str, built: str) -> None:
    """Models without a fused form of their own are only built with eager attention."""
    if built == "sdpa" and name in ("gemma2", "gpt-oss", "gpt-neo"):
        built = "eager"
    model = tiny_model(name, attention=built)
    report = parity_gate(loaded(model), TOKENIZED)
    assert report.passed
    assert report.max_weight_difference < 1e-5
    assert report.max_shared_difference < 1e-5
    assert report.max_logit_difference < 1e-4
    assert report.max_continued_difference < 1e-3
    assert report.layers_captured == (1 if name == "qwen3-next" else 2)
    assert report.tokens == 29
    assert report.path == ("eager" if name == "gpt-neo" else "fast")
    assert model.config._attn_implementation == built


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_other_precisions_pass_at_their_own_tolerance(name: str, dtype: torch.dtype) -> None:
    report = parity_gate(loaded(tiny_model(name).to(dtype)), TOKENIZED)
    assert report.dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("name", "kernel"), [("llama", "FLASH_ATTENTION"), ("gemma2", "ROWS"), ("gpt-neo", "maps")]
)
def test_the_kernel_is_reported(name: str, kernel: str) -> None:
    """On a CPU torch runs its flash kernel; no fused one knows a softcap."""
    assert parity_gate(loaded(tiny_model(name)), TOKENIZED).kernels == (kernel,)


def test_softmax_is_in_float32() -> None:
    """Rows of a model in half precision: neither scores nor weights are rounded to its type."""
    for dtype in (torch.float16, torch.bfloat16):
        model = tiny_model("llama").to(dtype)
        rows = capture(model, torch.as_tensor(TOKENIZED.prefix)[None], torch.tensor([23]))
        assert rows.scores.dtype == rows.weights.dtype == torch.float32
        torch.testing.assert_close(rows.weights, rows.scores.softmax(-1), atol=1e-7, rtol=1e-6)
        torch.testing.assert_close(rows.weights.sum(-1), torch.ones(1, 2, 4, 1), atol=1e-6, rtol=0)
        assert not torch.equal(rows.weights, rows.weights.to(dtype).float())


def gate(name: str) -> None:
    parity_gate(loaded(tiny_model(name)), TOKENIZED)


def test_a_missing_mask_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no mask is made: a window of four is not seen."""
    monkeypatch.delitem(AttentionMaskInterface._global_mapping, NAME)
    with pytest.raises(Refusal, match=r"layer 0, head \d: needed captured weights equal"):
        gate("mistral")


def test_attention_to_later_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes no mask for none is not causal."""

    def non_causal(*args: Any, **options: Any) -> ScoreRule:
        return rule(*args, **options)._replace(causal=False)

    rule = attention._rule
    monkeypatch.setattr(attention, "_rule", non_causal)
    with pytest.raises(Refusal, match=r"layer 0, head \d: needed no mass on later tokens"):
        gate("llama")


def test_wrong_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(self: Recorder, call: LayerCall, keys: KeyValues) -> None:
        if call.layer == 1:
            call = call._replace(rule=call.rule._replace(scaling=call.rule.scaling * 1.05))
        right(self, call, keys)

    right = Recorder.record
    monkeypatch.setattr(Recorder, "record", record)
    with pytest.raises(Refusal, match=r"layer 1, head \d: needed captured weights equal to eager"):
        gate("qwen3")


def test_wrong_grouping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head h reading key/value head h modulo 2 instead of h // 2: heads 1 and 2 are wrong."""

    def interleaved(query: Tensor, keys: KeyValues) -> Tensor:
        groups = keys.key.shape[1]
        order = torch.arange(query.shape[1]).view(-1, groups).T.reshape(-1)
        return right(query[:, order], keys)[:, order.argsort()]

    right = scores._products
    monkeypatch.setattr(scores, "_products", interleaved)
    with pytest.raises(
        Refusal, match=r"layer 0, head [12]: needed captured weights equal to eager"
    ):
        gate("llama")


@pytest.mark.parametrize(
    ("name", "rule"), [("gemma2", {"softcap": None}), ("gpt-oss", {"sinks": None})]
)
def test_an_ignored_rule(name: str, rule: dict[str, None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without softcap or sinks in scores and output alike."""

    def without(*args: Any, **options: Any) -> ScoreRule:
        return right(*args, **options)._replace(**rule)  # type: ignore[arg-type]

    def fused(*args: Any, **options: Any) -> Any:
        options.pop("softcap", None)
        return sdpa_attention_forward(*args, **options)

    right = attention._rule
    monkeypatch.setattr(attention, "_rule", without)
    monkeypatch.setattr(attention, "sdpa_attention_forward", fused)
    with pytest.raises(Refusal, match=r"layer 0, head \d: needed captured weights equal to eager"):
        gate(name)


def test_a_layer_that_is_never_called() -> None:
    model = tiny_model("llama", attention="sdpa")
    module = model.model.layers[1].self_attn
    module.config = copy.deepcopy(module.config)
    module.config._attn_implementation = "eager"
    with pytest.raises(Refusal, match="layer 1: needed one call"):
        parity_gate(loaded(model), TOKENIZED)


def test_an_output_that_is_not_the_layer_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are right in the last layer, but its output is not: the logits tell."""

    def shrunk(module: Any, *args: Any, **options: Any) -> tuple[Tensor, None]:
        output, _ = attention.recorded_attention(module, *args, **options)
        return output * (0.9 if module.layer_idx == 1 else 1.0), None

    monkeypatch.setitem(AttentionInterface._global_mapping, NAME, shrunk)
    with pytest.raises(Refusal, match="needed logits of capture equal to eager ones"):
        gate("llama")


def test_shared_prefixes_that_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suffixes placed one behind the other have wrong positions: only the shared run tells."""

    def from_zero(model: Any, ids: Tensor, *args: Any, **options: Any) -> Tensor:
        if "position_ids" in options:
            options["position_ids"] = torch.arange(ids.shape[1])[None]
        return right(model, ids, *args, **options)

    right = forward.recorded_logits
    monkeypatch.setattr("probes.blocks.recorded_logits", from_zero)
    with pytest.raises(Refusal, match=r"layer [01], head .*equal to whole prompts' ones"):
        gate("llama")


def test_heads_that_do_not_group() -> None:
    """A configuration that tells other heads than the tensors have."""
    model = tiny_model("llama")
    model.config.num_attention_heads = 8
    with pytest.raises(Refusal, match=r"layer 0: needed 8 heads .* came 4 over 2"):
        parity_gate(loaded(model), TOKENIZED)


def test_weights_that_are_not_numbers() -> None:
    model = tiny_model("llama")
    model.model.layers[1].self_attn.q_proj.weight.data[0, 0] = torch.nan
    with pytest.raises(Refusal, match="layer 1, head 0: needed captured weights"):
        parity_gate(loaded(model), TOKENIZED)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3-next"])
def test_answers_read_on_at_a_wrong_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first forward on the shared prefix is right; a token behind it is placed one too far."""

    def one_too_far(self: CachedContinuation, tokens: Tensor) -> Tensor:
        def shift(_: Any, given: Any, named: Any) -> Any:
            places = torch.full((len(tokens), 1), self.length + 1)
            return given, {**named, "position_ids": places}

        handle = self.model.register_forward_pre_hook(shift, with_kwargs=True)
        try:
            return right(self, tokens)
        finally:
            handle.remove()

    right = CachedContinuation.next_logits
    monkeypatch.setattr(CachedContinuation, "next_logits", one_too_far)
    with pytest.raises(Refusal, match=r"needed logits of answers read on .*whole prompts' ones"):
        gate(name)


def test_a_cache_that_loses_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suffixes see the prefix, and what is read on behind them does not."""

    def forgetful(self: CachedContinuation, tokens: Tensor) -> Tensor:
        for layer in self.cache.layers:
            layer.prefix_value = torch.zeros_like(layer.prefix_value)
        return right(self, tokens)

    right = CachedContinuation.next_logits
    monkeypatch.setattr(CachedContinuation, "next_logits", forgetful)
    with pytest.raises(Refusal, match=r"answers read on \(packed\) equal"):
        gate("llama")


def test_ids_without_an_embedding() -> None:
    context = hand_made_context()
    context.suffixes[1, 2] = 64
    with pytest.raises(Refusal, match=r"below 64, .* came 64: the tokenizer is another model's"):
        parity_gate(loaded(tiny_model("llama")), context)
