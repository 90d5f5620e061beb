"""Contributions: against the layers' own outputs, by loops, by ablation and by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig

from probes.answer_step import answer_step
from probes.attention_routes import attention_routes
from probes.capture import capture
from probes.contribution import Contributions, contributions, digit_direction
from probes.families import FAMILIES, tiny_config
from probes.head_values import output_projections
from probes.interventions import replace_heads
from probes.residuals import output_head, residual_stream
from probes.rows import PARTS
from prompts.refusal import Refusal
from tests.probes.test_answer_step import whole_prompts
from tests.probes.tiny_models import HandMadeContext, build, hand_made_context, tiny_model

DIRECTION = np.random.default_rng(0).normal(size=32)
TOKENIZED = hand_made_context()
ADDED_BY = {
    "llama": "self_attn.o_proj",
    "gpt2": "attn.c_proj",
    "qwen3": "self_attn.o_proj",
    "mistral": "self_attn.o_proj",
    "gpt-oss": "self_attn.o_proj",
    "llama-dynamic": "self_attn.o_proj",
    "gemma2": "post_attention_layernorm",
    "olmo2": "post_attention_layernorm",
}


def model_of(name: str) -> Any:
    return build(tiny_config(FAMILIES[name])) if name == "olmo2" else tiny_model(name)


def outputs(model: Any, name: str) -> list[Tensor]:
    """What each layer's module of this name gives at the last token of whole prompts."""
    kept: list[Tensor] = []
    found = [module for path, module in model.named_modules() if path.endswith(name)]
    for module in found:
        module.register_forward_hook(lambda m, i, out: kept.append(out[:, -1].double()))
    with torch.no_grad():
        model(input_ids=whole_prompts(TOKENIZED), use_cache=False)
    return kept


@pytest.mark.parametrize("name", ADDED_BY)
def test_heads_and_tokens_add_up_to_what_attention_adds(name: str) -> None:
    """The layer's whole output along the direction, its bias apart."""
    model = model_of(name)
    found = contributions(model, TOKENIZED, DIRECTION)
    for place, output in enumerate(outputs(model, ADDED_BY[name])):
        bias = getattr(output_projections(model)[place], "bias", None)
        less = output if bias is None else output - bias.double()
        expected = less.numpy() @ DIRECTION
        size = np.abs(expected).max()
        np.testing.assert_allclose(found.whole[:, place].sum(-1), expected, atol=1e-5 * size)
        np.testing.assert_allclose(found.added[:, place], expected, atol=1e-5 * size)
    # Mistral's tiny window ends before the examples.
    assert (found.rows < 0).any() == (found.rows > 0).any() == (name != "mistral")


def by_loops(model: Any, values: list[Tensor], kv_heads: int) -> Contributions:
    """Weights of whole prompts times values (query, token, kv head x 8), head by head."""
    ids = whole_prompts(TOKENIZED)
    weights = capture(model, ids, torch.tensor([28])).weights[:, :, :, 0].double()
    whole, rows = np.zeros((3, 2, 4)), np.zeros((3, 2, 4, 4, 4))
    for layer, head in np.ndindex(2, 4):
        projection: Any = output_projections(model)[layer]
        matrix = projection.weight.double()
        columns = matrix if type(projection).__name__ == "Conv1D" else matrix.T
        read = columns[8 * head : 8 * head + 8] @ torch.as_tensor(DIRECTION)
        own = head * kv_heads // 4
        value = values[layer][..., 8 * own : 8 * own + 8].double() @ read
        token = (weights[:, layer, head] * value).numpy()
        whole[:, layer, head] = token.sum(-1)
        for part, example in np.ndindex(4, 4):
            places = TOKENIZED.parts[PARTS[part]][example]
            rows[:, layer, head, part, example] = token[:, places].sum(-1)
    return Contributions(rows, whole, whole.sum(-1), (0, 1))


@pytest.mark.parametrize(
    ("name", "made_by", "kv_heads"),
    [
        ("llama", "v_proj", 2),
        ("qwen3", "v_proj", 2),
        ("mistral", "v_proj", 2),
        ("gpt2", "c_attn", 4),
    ],
)
def test_every_row_by_loops_over_whole_prompts(name: str, made_by: str, kv_heads: int) -> None:
    model, values = tiny_model(name), list[Tensor]()
    for path, module in model.named_modules():
        if path.endswith(made_by):
            last = 8 * kv_heads
            module.register_forward_hook(lambda m, i, out: values.append(out[..., -last:]))  # noqa: B023
    with torch.no_grad():
        model(input_ids=whole_prompts(TOKENIZED), use_cache=False)
    expected = by_loops(model, values[:2], kv_heads)
    found = contributions(model, TOKENIZED, DIRECTION)
    np.testing.assert_allclose(found.rows, expected.rows, atol=1e-4)
    np.testing.assert_allclose(found.whole, expected.whole, atol=1e-4)


def test_a_head_set_to_zero_takes_its_contribution_away() -> None:
    model = tiny_model("gpt2")
    found = contributions(model, TOKENIZED, DIRECTION)
    plain = outputs(model, "attn.c_proj")[0]
    with replace_heads(model, ["L0H2"], "zero", positions=[28]):
        without = outputs(model, "attn.c_proj")[0]
    lost = (plain - without).numpy() @ DIRECTION
    np.testing.assert_allclose(found.whole[:, 0, 2], lost, atol=1e-4)


def copying_llama() -> Any:
    """One layer, one head, every weight 1/T: it adds +2 of axis 1 for token 5, -3 for token 6.

    Tokens are unit vectors times 1/2, which the norm in front (8 numbers) makes sqrt(8) long.
    """
    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "vocab_size": 64}
    config = LlamaConfig(num_hidden_layers=1, num_attention_heads=1, rms_norm_eps=0.0, **sizes)
    model = build(config)
    attention = model.model.layers[0].self_attn
    embedding = torch.zeros(64, 8)
    embedding[torch.arange(64), torch.arange(64) % 8] = 0.5
    embedding[5], embedding[6] = torch.eye(8)[3] / 2, torch.eye(8)[4] / 2
    others = (torch.arange(64) != 5) & (torch.arange(64) != 6)
    embedding[others] = torch.eye(8)[0] / 2
    model.model.embed_tokens.weight.data = embedding
    model.model.layers[0].input_layernorm.weight.data = torch.ones(8)
    attention.q_proj.weight.data.zero_()
    attention.v_proj.weight.data = torch.zeros(8, 8)
    attention.v_proj.weight.data[2, 3] = 2 / math.sqrt(8)
    attention.v_proj.weight.data[2, 4] = -3 / math.sqrt(8)
    attention.o_proj.weight.data = torch.zeros(8, 8)
    attention.o_proj.weight.data[1, 2] = 1.0
    return model


def test_a_copying_head_by_hand() -> None:
    """Three examples of two tokens (x, y), a query of one: 7 tokens, weight 1/7 each.

    y are the tokens 5, 6, 5: along axis 1 they give +2/7, -3/7, +2/7; along 10 x axis 0 nothing.
    """
    places = np.array([[0, 1], [2, 3], [4, 5]])
    parts = dict(zip(PARTS, (places[:, :1], places[:, 1:], places[:, :0], places), strict=True))
    prefix = np.array([9, 5, 10, 6, 11, 5])
    tokenized = HandMadeContext(prefix, np.array([[12], [13]]), parts, places[:, 0])
    along = np.eye(8)[1] + 10 * np.eye(8)[0]
    found = contributions(copying_llama(), tokenized, along)
    of_y = np.array([2, -3, 2]) / 7
    for query in range(2):
        rows = found.rows[query, 0, 0]
        expected = np.stack([np.zeros(3), of_y, np.zeros(3), of_y])
        np.testing.assert_allclose(rows, expected, atol=1e-6)
        np.testing.assert_allclose(found.whole[query, 0, 0], 1 / 7, atol=1e-6)


def test_a_direction_for_each_layer() -> None:
    model = tiny_model("llama")
    one = contributions(model, TOKENIZED, DIRECTION)
    both = contributions(model, TOKENIZED, np.stack([DIRECTION, 2 * DIRECTION]))
    np.testing.assert_allclose(both.rows[:, 0], one.rows[:, 0], atol=1e-6)
    np.testing.assert_allclose(both.rows[:, 1], 2 * one.rows[:, 1], atol=1e-5)
    with pytest.raises(Refusal, match=r"a direction of 32 numbers, or 2 of them; came .*\(31,\)"):
        contributions(model, TOKENIZED, DIRECTION[1:])


def test_what_is_at_hand_is_used() -> None:
    model = tiny_model("llama")
    step = answer_step(model, TOKENIZED)
    routes = attention_routes(step)
    again = contributions(model, TOKENIZED, DIRECTION, routes=routes, step=step)
    np.testing.assert_array_equal(again.rows, contributions(model, TOKENIZED, DIRECTION).rows)


def test_a_scaled_residual_is_followed() -> None:
    """Granite adds its attention's output times a number."""
    config = tiny_config(FAMILIES["granite"])
    config.residual_multiplier = 0.25
    model = build(config)
    routes = attention_routes(answer_step(model, TOKENIZED))
    assert [route.scale for route in routes.values()] == pytest.approx([0.25, 0.25], rel=1e-4)
    found = contributions(model, TOKENIZED, DIRECTION)
    expected = 0.25 * outputs(model, "o_proj")[1].numpy() @ DIRECTION
    np.testing.assert_allclose(found.added[:, 1], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3-next", "'qwen3_next' something stands between"),
        ("gpt-neo", "hands its values to the attention interface, came 'gpt_neo'"),
        ("falcon-h1", "the family 'falcon_h1' does otherwise"),
    ],
)
def test_families_in_which_it_is_undefined_are_refused(name: str, said: str) -> None:
    model = build(tiny_config(FAMILIES[name]))
    with pytest.raises(Refusal, match=said):
        contributions(model, TOKENIZED, DIRECTION)


def digits(model: Any, first: int = 20) -> Any:
    """A loaded model in which the digit d is token first + d."""
    tokens = SimpleNamespace(convert_tokens_to_ids=lambda text: first + int(text))
    return SimpleNamespace(model=model, tokenizer=tokens)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_the_digit_direction_is_the_slope_of_the_digits_logits(name: str) -> None:
    """Before the final norm: a state's slope is its projection times 1 over its size (root mean
    square; of what is centred, in GPT-2), plus what the norm's bias gives."""
    model = tiny_model(name)
    step = answer_step(model, TOKENIZED)
    direction = digit_direction(digits(model), step)
    states = residual_stream(step).states[:, -1]
    centred = states - states.mean(-1, keepdim=True) if name == "gpt2" else states
    head = output_head(step)
    norm: Any = head.tail[0]
    raw = head.unembedding(norm(states))[:, 20:30].numpy()
    slopes = np.polyfit(np.arange(10), raw.T, 1)[0]
    if name == "gpt2":
        slopes -= np.polyfit(np.arange(10), head.unembedding(norm.bias)[20:30].numpy(), 1)[0]
    size = centred.double().pow(2).mean(-1).sqrt().numpy()
    np.testing.assert_allclose(states.numpy() @ direction / size, slopes, rtol=1e-3, atol=1e-5)


def test_a_tokenizer_without_digits_is_refused() -> None:
    model = tiny_model("llama")
    tokens = SimpleNamespace(convert_tokens_to_ids=lambda text: None)
    own = SimpleNamespace(model=model, tokenizer=tokens)
    with pytest.raises(Refusal, match="a token for each digit"):
        digit_direction(own, answer_step(model, TOKENIZED))
