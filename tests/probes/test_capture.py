"""Capture against each family's own eager attention, and against rotations and loops by hand."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from probes.attention import NAME, LayerCall, Recorder, active_recorder
from probes.capture import capture, keep_all, stack_layers
from probes.forward import eager_forward, recorded_logits
from probes.model_facts import attention_layers
from probes.scores import KeyValues
from tests.probes.tiny_models import (
    FAST,
    WITH_ATTENTION,
    hand_made_context,
    loaded,
    random_ids,
    tiny_model,
    windowed,
)

POSITIONS = torch.tensor([2, 5, 9])


def eager_maps(model: Any, ids: Tensor, **masks: Tensor) -> tuple[Tensor, Tensor]:
    """The family's own maps (batch, layer, head, query, key) and logits."""
    output = model(input_ids=ids, output_attentions=True, use_cache=False, **masks)
    return torch.stack(output.attentions, 1), output.logits


@pytest.mark.parametrize("name", WITH_ATTENTION)
@pytest.mark.parametrize("batch", [1, 5])
def test_weights_and_logits_are_the_family_s_own(name: str, batch: int) -> None:
    model = tiny_model(name)
    ids = random_ids(batch, 10)
    maps, logits = eager_maps(model, ids)
    captured = capture(model, ids, POSITIONS)
    torch.testing.assert_close(captured.weights, maps[:, :, :, POSITIONS], atol=1e-5, rtol=0)
    torch.testing.assert_close(captured.logits, logits[:, POSITIONS], atol=1e-4, rtol=0)
    assert captured.layers == attention_layers(model)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_weights_are_the_softmax_of_the_scores(name: str) -> None:
    """Without sinks; with them, of the scores and what is left for the sink."""
    captured = capture(tiny_model(name), random_ids(2, 10), POSITIONS)
    left = torch.ones_like(captured.weights[..., 0])
    if captured.sink is not None:
        left = left - captured.sink
    torch.testing.assert_close(captured.scores.softmax(-1) * left[..., None], captured.weights)
    assert (captured.sink is not None) == (name == "gpt-oss")


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_hidden_keys_have_no_score_and_no_weight(name: str) -> None:
    captured = capture(tiny_model(name), random_ids(1, 10), POSITIONS)
    future = torch.arange(10) > POSITIONS[:, None]
    assert bool((captured.scores.masked_select(future) == -torch.inf).all())
    assert bool((captured.weights.masked_select(future) == 0).all())
    assert not bool(captured.scores.isnan().any() | captured.weights.isnan().any())


def rotated(states: Tensor, base: float) -> Tensor:
    """Rotary positions by complex numbers: pair (i, i + d/2) turned by position * base^(-2i/d)."""
    half = states.shape[-1] // 2
    turns = base ** (-torch.arange(half) / half)
    angles = torch.arange(states.shape[2])[:, None] * turns
    pairs = torch.complex(states[..., :half], states[..., half:]) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.cat([pairs.real, pairs.imag], -1)


@contextmanager
def projections(attention: Any, into: dict[str, Tensor]) -> Iterator[None]:
    """Keep what a layer's query and key projections give."""

    def keeper(name: str) -> Any:
        def keep(_module: Any, _args: Any, output: Tensor) -> None:
            into[name] = output

        return keep

    names = ("q_proj", "k_proj")
    handles = [getattr(attention, n).register_forward_hook(keeper(n)) for n in names]
    yield
    for handle in handles:
        handle.remove()


def test_scores_of_a_grouped_model_by_loop() -> None:
    """q.k / sqrt(d) of rotated projections; head h reads key/value head h // 2."""
    model = tiny_model("llama")
    ids = random_ids(1, 10)
    found: dict[str, Tensor] = {}
    with projections(model.model.layers[1].self_attn, found):
        captured = capture(model, ids, POSITIONS)
    query = rotated(torch.unflatten(found["q_proj"], 2, (4, 8)).transpose(1, 2), 1e4)
    key = rotated(torch.unflatten(found["k_proj"], 2, (2, 8)).transpose(1, 2), 1e4)
    for head in range(4):
        for place, position in enumerate(POSITIONS.tolist()):
            for token in range(position + 1):
                score = float(query[0, head, position] @ key[0, head // 2, token]) / math.sqrt(8)
                assert float(captured.scores[0, 1, head, place, token]) == pytest.approx(
                    score, abs=1e-4
                )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt-oss", "gpt2"])
def test_padded_prompts_are_the_prompts_alone(name: str, side: str) -> None:
    """A prompt of 7 padded to 10 gives what it gives alone, at each prompt's own positions."""
    model = tiny_model(name)
    long, short = random_ids(1, 10), random_ids(1, 7, seed=2)
    before, after = (3, 0) if side == "left" else (0, 3)
    ids = torch.cat([long, torch.nn.functional.pad(short, (before, after))])
    mask = torch.cat([torch.ones(10), torch.nn.functional.pad(torch.ones(7), (before, after))])
    mask = mask.reshape(2, 10).long()
    places = torch.arange(10).repeat(2, 1) - torch.tensor([[0], [before]])
    own = torch.tensor([[4, 9], [2 + before, 6 + before]])
    both = capture(model, ids, own, attention_mask=mask, position_ids=places.clamp(min=0))
    alone = capture(model, short, torch.tensor([2, 6]))
    weights = both.weights[1, ..., before : before + 7]
    torch.testing.assert_close(weights, alone.weights[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(both.logits[1], alone.logits[0], atol=1e-4, rtol=0)
    whole = capture(model, long, torch.tensor([4, 9]))
    torch.testing.assert_close(both.weights[0], whole.weights[0], atol=1e-5, rtol=0)


def test_a_window_of_four_sees_four_keys() -> None:
    """The tenth token sees tokens 6 to 9 and no fifth; the fourth sees 0 to 3; rows sum to 1."""
    captured = capture(windowed(4), random_ids(1, 10), torch.tensor([3, 9]))
    seen = captured.scores[0, 0].isfinite()
    for head in range(4):
        assert seen[head, 0].nonzero().flatten().tolist() == [0, 1, 2, 3]
        assert seen[head, 1].nonzero().flatten().tolist() == [6, 7, 8, 9]
    torch.testing.assert_close(captured.weights.sum(-1), torch.ones(1, 1, 4, 2))


def test_no_window_sees_every_key() -> None:
    captured = capture(windowed(None), random_ids(1, 10), torch.tensor([9]))
    assert bool(captured.scores.isfinite().all())


@pytest.mark.parametrize("name", [name for name in FAST if name != "llama-dynamic"])
def test_a_cache_continues_the_prompt(name: str) -> None:
    """The last tokens on a cache of the first give what the whole prompt gives."""
    model = tiny_model(name)
    ids = random_ids(2, 10)
    cache = DynamicCache(config=model.config)
    capture(model, ids[:, :6], torch.tensor([5]), cache=cache)
    rest = capture(model, ids[:, 6:], torch.tensor([7, 9]), cache=cache)
    whole = capture(model, ids, torch.tensor([7, 9]))
    torch.testing.assert_close(rest.weights, whole.weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(rest.scores, whole.scores, atol=1e-4, rtol=0)
    torch.testing.assert_close(rest.logits, whole.logits, atol=1e-4, rtol=0)


def test_dynamic_positions_do_not_depend_on_earlier_prompts() -> None:
    """Such an embedding remembers the longest prompt; capture starts it anew."""
    model = tiny_model("llama-dynamic")
    ids = random_ids(1, 40)
    before = capture(model, ids[:, :25], torch.tensor([24]))
    capture(model, ids, torch.tensor([39]))
    after = capture(model, ids[:, :25], torch.tensor([24]))
    torch.testing.assert_close(before.weights, after.weights, atol=0, rtol=0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_model_is_left_as_it_was(attention: str) -> None:
    model = tiny_model("llama", attention=attention)
    ids = random_ids(1, 10)
    before = model(ids).logits
    capture(model, ids, POSITIONS)
    assert model.config._attn_implementation == attention
    assert bool((model(ids).logits == before).all())


def test_an_error_inside_the_model_leaves_nothing_behind() -> None:
    model = tiny_model("llama", attention="sdpa")

    def fail(*_: Any) -> None:
        raise RuntimeError("in the middle")

    handle = model.model.layers[1].mlp.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        capture(model, random_ids(1, 10), POSITIONS)
    handle.remove()
    assert active_recorder() is None
    assert model.config._attn_implementation == "sdpa"


def test_outside_a_capture_the_function_is_the_fused_kernel() -> None:
    fused, ours = tiny_model("llama", attention="sdpa"), tiny_model("llama", attention=NAME)
    ids = random_ids(2, 10)
    assert bool((fused(ids).logits == ours(ids).logits).all())


def test_captures_inside_a_capture_do_not_mix() -> None:
    """A recorder that runs another forward, as a matcher of twins does."""
    model, other = tiny_model("llama"), tiny_model("gpt2")
    ids = random_ids(1, 10)

    class Nested(Recorder):
        def record(self, call: LayerCall, keys: KeyValues) -> None:
            capture(other, ids, POSITIONS)
            super().record(call, keys)

    nested = Nested(POSITIONS, 0, lambda rows: rows.weights)
    recorded_logits(model, ids, POSITIONS, nested)
    plain = capture(model, ids, POSITIONS)
    for layer in (0, 1):
        torch.testing.assert_close(nested.kept[layer], plain.weights[:, layer], atol=0, rtol=0)


def test_eager_scores_are_scores_up_to_a_constant_a_row() -> None:
    """On Llama, where both paths exist, log-weights differ from scores by one number a row."""
    model = tiny_model("llama")
    ids = random_ids(1, 10)
    slow = stack_layers(eager_forward(model, ids, POSITIONS, keep=keep_all), "eager")
    fast = capture(model, ids, POSITIONS)
    offset = (slow.scores - fast.scores).nan_to_num(0.0)
    visible = fast.scores.isfinite()
    spread = offset.masked_fill(~visible, -torch.inf).amax(-1) - offset.masked_fill(
        ~visible, torch.inf
    ).amin(-1)
    torch.testing.assert_close(spread, torch.zeros_like(spread), atol=1e-4, rtol=0)


def test_bfloat16_softmax_runs_in_float32() -> None:
    model = tiny_model("llama").to(torch.bfloat16)
    captured = capture(model, random_ids(1, 10), POSITIONS)
    assert captured.weights.dtype == torch.float32
    torch.testing.assert_close(captured.weights.sum(-1), torch.ones(1, 2, 4, 3))


def test_a_loaded_model_or_its_module() -> None:
    model = tiny_model("llama")
    ids = torch.as_tensor(hand_made_context().prefix)[None]
    one, two = (capture(x, ids, POSITIONS) for x in (model, loaded(model)))
    assert bool((one.scores.nan_to_num() == two.scores.nan_to_num()).all())
