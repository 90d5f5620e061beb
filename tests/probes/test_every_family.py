"""Every family of the table, tiny and peaky: scores, weights, logits, padding, shared prefixes.

Two references for each: the family's own eager maps, and a recomputation in float64 from the
queries, keys and values of the very forward that is captured, with a mask made here from the
configuration and the padding alone.
"""

import functools
import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface

from probes.attention import NAME
from probes.blocks import Ask, run_blocks
from probes.capture import Capture, capture, keep_all, stack_layers
from probes.families import FAMILIES, family_of, tiny_config
from probes.forward import Forward
from probes.model_facts import attention_layers, attention_path, sharing
from probes.parity import parity_gate
from probes.query_weights import fused_parts, query_holders
from prompts.refusal import Refusal
from tests.probes.test_capture import rotated
from tests.probes.tiny_models import build, hand_made_context, loaded, random_ids

ASKED_FOR = {
    *("gpt2", "gpt-neo", "gpt-j", "gpt-neox", "opt", "bloom", "mpt", "falcon-7b", "falcon-40b"),
    *("xglm", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2"),
    *("granite", "smollm3", "gpt-oss", "qwen3-next", "lfm2", "mamba"),
}
CAPTURED = [name for name, family in FAMILIES.items() if family.route != "refused"]
REFUSED = [name for name in FAMILIES if name not in CAPTURED]
EAGER = [name for name in CAPTURED if FAMILIES[name].route == "eager"]
TOKENS = 12
DTYPES = [torch.float32, torch.bfloat16]


class Allowed(NamedTuple):
    """Largest differences: of weights, of scores and outputs and logits over their largest."""

    weight: float
    relative: float


# To the family's eager attention, whose bfloat16 rounds scores; to numbers of the same forward.
TO_EAGER = {torch.float32: Allowed(2e-5, 2e-5), torch.bfloat16: Allowed(0.15, 0.1)}
BY_HAND = {torch.float32: Allowed(2e-5, 2e-5), torch.bfloat16: Allowed(2e-5, 0.02)}


@functools.cache
def model_of(name: str, dtype: torch.dtype = torch.float32) -> Any:
    return build(tiny_config(FAMILIES[name])).to(dtype)


class Batch(NamedTuple):
    """Prompts in one tensor: `mask` is 0 at padding, `places` counts each prompt's own tokens."""

    ids: Tensor
    mask: Tensor
    places: Tensor
    lengths: list[int]
    starts: list[int]

    @property
    def positions(self) -> Tensor:
        """Of each prompt its third token, its sixth and its last."""
        ends = zip(self.starts, self.lengths, strict=True)
        return torch.tensor([[start + 2, start + 5, start + length - 1] for start, length in ends])


def batch_of(size: int, padding: str) -> Batch:
    """A prompt of nine tokens, or five prompts of which the first has nine; TOKENS unpadded."""
    lengths = [9, 12, 8, 11, 10][:size] if padding != "none" else [TOKENS] * size
    starts = [TOKENS - length if padding == "left" else 0 for length in lengths]
    columns = torch.arange(TOKENS).expand(size, -1)
    first = torch.tensor(starts)[:, None]
    mask = (columns >= first) & (columns < first + torch.tensor(lengths)[:, None])
    ids = random_ids(size, TOKENS).masked_fill(~mask, 0)
    return Batch(ids, mask.long(), (columns - first).clamp(min=0), lengths, starts)


def arguments(model: Any, batch: Batch, padding: str) -> dict[str, Tensor]:
    """What a padded batch needs beside its ids: places where the family takes them."""
    if padding == "none":
        return {}
    takes = "position_ids" in inspect.signature(model.forward).parameters
    if attention_path(model) == "eager" and not takes:
        return {"attention_mask": batch.mask}
    return {"attention_mask": batch.mask, "position_ids": batch.places}


@torch.inference_mode()
def eager(model: Any, ids: Tensor, **masks: Tensor) -> tuple[Tensor, Tensor]:
    """The family's own maps (batch, layer, head, query, key) and logits."""
    output = model(input_ids=ids, output_attentions=True, use_cache=False, **masks)
    maps = [one for one in output.attentions if one is not None]
    return torch.stack(maps, 1).float(), output.logits.float()


def at(values: Tensor, positions: Tensor) -> Tensor:
    """The asked rows of (batch, ..., query, last): of each prompt its own."""
    return torch.stack([one[..., rows, :] for one, rows in zip(values, positions, strict=True)])


def close(ours: Tensor, reference: Tensor, most: float) -> None:
    torch.testing.assert_close(ours.double(), reference.double(), atol=most, rtol=0)


def largest(values: Tensor) -> float:
    return max(1.0, float(values.masked_fill(values.isinf(), 0.0).abs().max()))


class Seen(NamedTuple):
    """Queries, keys and values that one layer gave, its rule, and the output it got."""

    query: Tensor
    key: Tensor
    value: Tensor
    rule: dict[str, Any]
    output: Tensor


@contextmanager
def spied() -> Iterator[dict[int, Seen]]:
    """Keep what every layer hands to capture's function and gets from it."""
    right: Any = AttentionInterface._global_mapping[NAME]
    seen: dict[int, Seen] = {}

    def spy(module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **rule: Any) -> Any:
        output = right(module, query, key, value, *args, **rule)
        seen[module.layer_idx] = Seen(query, key, value, rule, output[0])
        return output

    AttentionInterface._global_mapping[NAME] = spy
    try:
        yield seen
    finally:
        AttentionInterface._global_mapping[NAME] = right


WINDOWS = {
    "sliding_attention": "sliding_window",
    "local": "window_size",
    "attention": "attention_window_size",
}


def in_reach(config: Any, layer: int, places: Tensor) -> Tensor:
    """Keys (batch, query, key) that a layer lets a query see, from `places` (batch, token)."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    kind = kinds[layer] if kinds else "sliding_attention"
    row, key = places[:, :, None], places[:, None]
    size = getattr(config, WINDOWS.get(kind, ""), None) or TOKENS
    if kind == "chunked_attention":
        size = row % config.attention_chunk_size + 1
    return (key <= row) & (row - key < size)


class Hand(NamedTuple):
    scores: Tensor
    weights: Tensor
    output: Tensor


def by_hand(seen: Seen, visible: Tensor) -> Hand:
    """Attention head by head in float64; `visible` (batch, query, key)."""
    rule, heads = seen.rule, seen.query.shape[1]
    shared = heads // seen.key.shape[1]
    scaling = rule.get("scaling")
    scaling = seen.query.shape[-1] ** -0.5 if scaling is None else scaling
    parts = []
    for head in range(heads):
        query = seen.query[:, head].double()
        key, value = seen.key[:, head // shared].double(), seen.value[:, head // shared].double()
        scores = torch.einsum("bqd,bkd->bqk", query, key) * scaling
        if rule.get("softcap") is not None:
            scores = rule["softcap"] * torch.tanh(scores / rule["softcap"])
        if rule.get("position_bias") is not None:
            scores = scores + rule["position_bias"][:, head]
        scores = scores.masked_fill(~visible, -torch.inf)
        exponentials = (scores - scores.amax(-1, keepdim=True).clamp(min=-1e9)).exp()
        total = exponentials.sum(-1, keepdim=True)
        if rule.get("s_aux") is not None:
            sink = rule["s_aux"][head].double()
            total = total + (sink - scores.amax(-1, keepdim=True).clamp(min=-1e9)).exp()
        weights = exponentials / total
        parts.append(Hand(scores, weights, weights @ value))
    return Hand(*(torch.stack(part, 1) for part in zip(*parts, strict=True)))


def check_by_hand(model: Any, batch: Batch, captured: Capture, seen: dict[int, Seen]) -> None:
    """Scores, weights and each layer's output at the asked positions, layer by layer."""
    allowed = BY_HAND[model.dtype]
    assert tuple(sorted(seen)) == captured.layers
    for place, layer in enumerate(captured.layers):
        reach = in_reach(model.config, layer, batch.places) & batch.mask[:, None].bool()
        hand = by_hand(seen[layer], reach)
        scores = at(hand.scores, batch.positions)
        close(captured.scores[:, place], scores, 2e-5 * largest(scores))
        close(captured.weights[:, place], at(hand.weights, batch.positions), allowed.weight)
        ours = at(seen[layer].output.transpose(1, 2), batch.positions)
        close(ours, at(hand.output, batch.positions), allowed.relative * largest(ours))
        if captured.sink is not None:
            whole = captured.weights[:, place].sum(-1) + captured.sink[:, place]
            close(whole, torch.ones_like(whole), 1e-5)


# Padding enters its recurrence.
REFUSED_PADDING = [("recurrent-gemma", "left")]


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", CAPTURED)
def test_capture_is_right(name: str, dtype: torch.dtype, padding: str, size: int) -> None:
    if (name, padding) in REFUSED_PADDING:
        return  # Held by the next test.
    model, batch = model_of(name, dtype), batch_of(size, padding)
    masks = arguments(model, batch, padding)
    with spied() as seen:
        captured = capture(model, batch.ids, batch.positions, **masks)
    maps, logits = eager(model, batch.ids, **masks)
    allowed = TO_EAGER[dtype]
    close(captured.weights, at(maps, batch.positions), allowed.weight)
    own = at(logits, batch.positions)
    close(captured.logits, own, allowed.relative * largest(own))
    assert captured.layers == attention_layers(model)
    assert captured.path == FAMILIES[name].route
    left = 1.0 if captured.sink is None else 1.0 - captured.sink[..., None]
    # The eager path knows a row only as it was rounded.
    rounding = 0.02 if captured.path == "eager" and dtype == torch.bfloat16 else 2e-5
    close(captured.scores.softmax(-1) * left, captured.weights, rounding)
    if captured.path == "fast":
        check_by_hand(model, batch, captured, seen)


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_padded_prompt_is_the_prompt_alone(name: str, padding: str) -> None:
    model, batch = model_of(name), batch_of(5, padding)
    masks = arguments(model, batch, padding)
    if (name, padding) in REFUSED_PADDING:
        with pytest.raises(Refusal, match="needed prompts padded on the right"):
            capture(model, batch.ids, batch.positions, **masks)
        return
    together = capture(model, batch.ids, batch.positions, **masks)
    for place, (start, length) in enumerate(zip(batch.starts, batch.lengths, strict=True)):
        own = slice(start, start + length)
        alone = capture(model, batch.ids[place : place + 1, own], batch.positions[place] - start)
        close(together.weights[place, ..., own], alone.weights[0], 2e-5)
        close(together.logits[place], alone.logits[0], 2e-5 * largest(alone.logits))


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_shared_prefix_is_whole_prompts(name: str, dtype: torch.dtype, size: int) -> None:
    """24 shared tokens and five of each query: both longer than the windows of four."""
    model, prefix = model_of(name, dtype), torch.as_tensor(hand_made_context().prefix)
    suffixes = random_ids(size, 5, seed=7)
    ids = torch.cat([prefix.expand(size, -1), suffixes], 1)
    whole = capture(model, ids, torch.tensor([ids.shape[1] - 1]))
    how = sharing(model, ids.shape[1])
    (block,) = run_blocks(model, Ask(prefix, suffixes, None, keep_all), how=how)
    shared = stack_layers(Forward(block.kept, block.logits[:, None]), whole.path)
    allowed = TO_EAGER[dtype]
    close(shared.weights, whole.weights, allowed.weight)
    close(shared.logits, whole.logits, allowed.relative * largest(whole.logits))
    if dtype == torch.float32:
        close(shared.scores, whole.scores, 5e-5 * largest(whole.scores))


@pytest.mark.parametrize("name", CAPTURED)
def test_going_on_is_a_longer_prompt(name: str) -> None:
    """Two more tokens behind each of three queries, as an answer is read."""
    model, prefix = model_of(name), torch.as_tensor(hand_made_context().prefix)
    suffixes, more = random_ids(3, 5, seed=7), random_ids(3, 2, seed=8)
    ids = torch.cat([prefix.expand(3, -1), suffixes, more], 1)
    how = sharing(model, ids.shape[1])
    (block,) = run_blocks(model, Ask(prefix, suffixes, None, keep_all), how=how)
    assert block.continuation is not None
    for tokens in more.T:
        logits = block.continuation.next_logits(tokens)
    whole = capture(model, ids, torch.tensor([ids.shape[1] - 1])).logits[:, 0]
    close(logits, whole, 5e-5 * largest(whole))


def unscaled(query: Tensor, key: Tensor) -> Tensor:
    """(batch, head, token, dim) each, as are all below."""
    return torch.einsum("bhqd,bhkd->bhqk", query, key)


def scaled(query: Tensor, key: Tensor) -> Tensor:
    return unscaled(query, key) / math.sqrt(query.shape[-1])


def alibi(query: Tensor, key: Tensor) -> Tensor:
    """Head h of 4 adds the key's place times 2^(-2 (h + 1)) (arXiv 2108.12409, section 3)."""
    slopes = 2.0 ** (-2.0 * torch.arange(1, 5))
    bias: Tensor = slopes[:, None, None] * torch.arange(key.shape[2])
    return scaled(query, key) + bias


def turned(query: Tensor, key: Tensor) -> Tensor:
    return scaled(rotated(query, 1e4), rotated(key, 1e4))


SCORES_OF = {
    "gpt-neo": unscaled,
    "bloom": alibi,
    "mpt": alibi,
    "falcon-7b": turned,
    "falcon-40b": turned,
    "xglm": scaled,
}


@contextmanager
def outputs(modules: dict[str, Any]) -> Iterator[dict[str, Tensor]]:
    """What each module gives, by name; of one called `mixed`, what it is given."""
    found: dict[str, Tensor] = {}

    def keeper(name: str) -> Any:
        def keep(_module: Any, given: Any, output: Tensor) -> None:
            found[name] = given[0] if name == "mixed" else output

        return keep

    handles = [module.register_forward_hook(keeper(name)) for name, module in modules.items()]
    yield found
    for handle in handles:
        handle.remove()


def heads_of(projected: Tensor) -> Tensor:
    return (
        torch.unflatten(projected, 2, (-1, 8))
        .transpose(1, 2)
        .repeat_interleave(32 // projected.shape[2], 1)
    )


@pytest.mark.parametrize("name", EAGER)
def test_eager_maps_are_recomputed_from_projections(name: str) -> None:
    """Scores up to a constant a row, weights, and weights @ values before W_O, in each layer."""
    model, ids = model_of(name), random_ids(2, TOKENS)
    positions = torch.arange(TOKENS)
    for layer, attention in enumerate(query_holders(model)):
        children: dict[str, Any] = dict(attention.named_children())
        fused = fused_parts(attention, config=model.config)
        making = list(fused) or ["q_proj", "k_proj", "v_proj"]
        (last,) = children.keys() & {"out_proj", "dense"}
        watched = {child: children[child] for child in making} | {"mixed": children[last]}
        with outputs(watched) as found:
            captured = capture(model, ids, positions)
        whole = torch.cat([found[child] for child in making], 2)
        parts = fused[making[0]] if fused else torch.arange(96).view(3, 32)
        query, key, value = (heads_of(whole[..., part]) for part in parts)
        visible = in_reach(model.config, layer, positions[None])[:, None]
        scores = SCORES_OF[name](query, key).masked_fill(~visible, -torch.inf)
        close(captured.weights[:, layer], scores.softmax(-1), 2e-5)
        close(captured.scores[:, layer], scores.log_softmax(-1), 1e-3)
        mixed = captured.weights[:, layer] @ value
        close(mixed.transpose(1, 2).flatten(2), found["mixed"], 2e-5 * largest(mixed))


@pytest.mark.parametrize("name", CAPTURED)
def test_the_gate_passes(name: str) -> None:
    report = parity_gate(loaded(model_of(name)), hand_made_context())
    assert report.path == FAMILIES[name].route


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_family_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refusal, match=FAMILIES[name].model_type):
        capture(model_of(name), random_ids(1, TOKENS), torch.tensor([3]))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_finds_its_row(name: str) -> None:
    assert family_of(tiny_config(FAMILIES[name])) is FAMILIES[name]


def test_no_family_is_forgotten() -> None:
    assert ASKED_FOR - set(FAMILIES) == set()
    assert len({(row.model_type, *row.when.items()) for row in FAMILIES.values()}) == len(FAMILIES)
