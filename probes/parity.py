"""The gate at every load: what is captured is what the model does, or nothing is probed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probes.attention import LayerCall, Recorder
from probes.blocks import Ask, run_blocks
from probes.capture import Capture, capture, keep_all, stack_layers
from probes.forward import Forward, recorded_logits
from probes.model_facts import (
    Path,
    Sharing,
    attention_implementation,
    attention_layers,
    attention_path,
    forget_lengths,
    input_device,
    model_name,
    sharing,
    the_module,
)
from probes.rows import Tokens
from probes.scores import KeyValues, take_rows
from probes.shape import model_shape
from prompts.refusal import Refusal

_SAMPLED_ROWS = 6


class Tolerance(NamedTuple):
    """Largest difference allowed: of weights, and of logits and scores over their largest size."""

    weight: float
    relative: float


# In half precision eager attention rounds scores that the fused kernel does not.
TOLERANCES = {
    torch.float64: Tolerance(1e-4, 1e-4),
    torch.float32: Tolerance(1e-4, 1e-4),
    torch.float16: Tolerance(0.03, 0.02),
    torch.bfloat16: Tolerance(0.15, 0.1),
}


@dataclass(frozen=True)
class ParityReport:
    """What the gate found on one prompt of the study's own length (`tokens`).

    Differences are against the family's own eager attention (`max_logit_difference`,
    `max_weight_difference`), and of prompts that share their prefix against whole prompts
    (`max_shared_difference`, weights). `rows_checked`: query rows compared in each layer.
    """

    passed: bool
    path: Path
    sharing: Sharing
    max_logit_difference: float
    max_weight_difference: float
    max_shared_difference: float
    layers_captured: int
    heads: int
    kv_heads: int
    rows_checked: int
    tokens: int
    dtype: str


@dataclass
class _ShapeRecorder(Recorder):
    """A recorder that also notes each layer's (query heads, key/value heads)."""

    shapes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        self.shapes[call.layer] = call.query.shape[1], call.key.shape[1]
        super().record(call, keys)


@contextmanager
def _watched_maps(model: Any, rows: Tensor, found: dict[int, Tensor]) -> Iterator[None]:
    """Collect the asked rows of every eager attention map; no two maps are held at once."""

    def watch(module: Any, _: Any, output: Any) -> None:
        layer = getattr(module, "layer_idx", None)
        maps = [x for x in output if _is_map(x)] if isinstance(output, tuple) else []
        if layer is not None and maps:
            found[int(layer)] = take_rows(maps[0], rows).float().cpu()

    handles = [
        module.register_forward_hook(watch)
        for module in model.modules()
        if hasattr(module, "layer_idx")
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_map(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 4 and value.shape[2] == value.shape[3]


@torch.inference_mode()
def _eager(model: Any, ids: Tensor, rows: Tensor) -> tuple[dict[int, Tensor], Tensor]:
    """The family's own eager attention: weights of the asked rows by layer, and logits there."""
    found: dict[int, Tensor] = {}
    forget_lengths(model)
    with attention_implementation(model, "eager"), _watched_maps(model, rows, found):
        logits = model(input_ids=ids.to(input_device(model)), use_cache=False).logits
    return found, logits[:, rows.to(logits.device)].float().cpu()


def _recorded(model: Any, ids: Tensor, rows: Tensor, path: Path) -> Capture:
    if path == "eager":
        return capture(model, ids, rows)
    recorder = _ShapeRecorder(rows, 0, keep_all)
    logits = recorded_logits(model, ids, rows, recorder)
    _refuse_heads(model, recorder.shapes)
    return stack_layers(Forward(recorder.kept, logits), path)


def _refuse_heads(model: Any, shapes: dict[int, tuple[int, int]]) -> None:
    shape = model_shape(model.config)
    for layer, (heads, kv_heads) in shapes.items():
        if heads % kv_heads or heads != shape.heads:
            raise Refusal(
                f"needed {shape.heads} heads in whole groups over {shape.kv_heads} key/value "
                f"heads, came {heads} over {kv_heads}",
                where=f"{model_name(model)}, layer {layer}",
            )


def _refuse_layers(model: Any, captured: Capture, found: dict[int, Tensor]) -> None:
    wanted = attention_layers(model)
    for source, layers in (("captured", captured.layers), ("eager", tuple(sorted(found)))):
        if layers != wanted:
            differ = sorted(set(wanted) ^ set(layers))
            raise Refusal(
                f"needed {source} attention of {len(wanted)} layers, came {len(layers)}",
                where=f"{model_name(model)}, layer {differ[0]}",
            )


def _refuse_future(model: Any, captured: Capture, rows: Tensor) -> None:
    keys = torch.arange(captured.weights.shape[-1])
    future = captured.weights.masked_fill(keys <= rows[:, None], 0.0).sum(-1)
    if float(future.max()) > 0:
        _refuse_at(model, captured, future.amax(-1), "no mass on later tokens", 0.0)


def _refuse_at(model: Any, captured: Capture, worst: Tensor, needed: str, most: float) -> None:
    """Refuse naming the first layer at fault, since later ones read what it made, and its head.

    `worst` (batch, layer, head) holds the largest difference of each.
    """
    by_head = worst.amax(0)
    layer = int((by_head.amax(1) > most).nonzero()[0])
    head = int(by_head[layer].argmax())
    raise Refusal(
        f"needed {needed} (at most {most:g}), came {float(by_head[layer, head]):.3g}",
        where=f"{model_name(model)}, layer {captured.layers[layer]}, head {head}",
    )


def _weight_difference(
    model: Any, captured: Capture, reference: Tensor, what: str, most: float
) -> float:
    """Largest difference of weights; refuses one above `most`, NaN included."""
    differences = (captured.weights - reference).abs().nan_to_num(torch.inf)
    worst = differences.amax((-1, -2))
    if not float(worst.max()) <= most:
        _refuse_at(model, captured, worst, f"captured weights equal to {what}", most)
    return float(worst.max())


def _logit_difference(model: Any, ours: Tensor, reference: Tensor, most: float) -> float:
    difference = float((ours - reference).abs().nan_to_num(torch.inf).max())
    allowed = most * max(1.0, float(reference.abs().max()))
    if not difference <= allowed:
        raise Refusal(
            f"needed logits with capture equal to eager ones (at most {allowed:.2g}), "
            f"came {difference:.3g}",
            where=model_name(model),
        )
    return difference


def _sampled(length: int) -> Tensor:
    """A few positions of the prompt, the last one last."""
    places = {round(i * (length - 1) / (_SAMPLED_ROWS - 1)) for i in range(_SAMPLED_ROWS)}
    return torch.tensor(sorted(places))


def parity_gate(loaded: Any, tokenized: Tokens) -> ParityReport:
    """Check capture on one context's own prompts; refuses, with layer and figure, where it fails.

    Compared with the family's own eager attention on the same weights (no second copy is
    loaded): logits and weights on a sample of rows (logits only for a family that bypasses the
    interface, whose own maps are what is captured). Also: no mass on later tokens, every
    attention layer captured once, heads in whole groups, and prompts that share a prefix equal
    whole prompts.
    """
    model = the_module(loaded)
    path = attention_path(model)
    prefix, suffixes = torch.as_tensor(tokenized.prefix), torch.as_tensor(tokenized.suffixes[:2])
    ids = torch.cat([prefix.expand(len(suffixes), -1), suffixes], 1).long()
    rows = _sampled(ids.shape[1])
    found, logits = _eager(model, ids[:1], rows)
    ours = _recorded(model, ids, rows, path)
    if path == "eager":
        # Its maps are what is captured, so there is nothing of them left to compare.
        found = {layer: ours.weights[:1, i] for i, layer in enumerate(ours.layers)}
    _refuse_layers(model, ours, found)
    _refuse_future(model, ours, rows)
    differences = _differences(model, ours, found, logits)
    how = sharing(model, ids.shape[1])
    shape = model_shape(model.config)
    return ParityReport(
        passed=True,
        path=path,
        sharing=how,
        max_weight_difference=differences[0],
        max_logit_difference=differences[1],
        max_shared_difference=_shared_difference(model, tokenized, ours, how),
        layers_captured=len(ours.layers),
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        rows_checked=len(rows),
        tokens=ids.shape[1],
        dtype=str(model.dtype).removeprefix("torch."),
    )


def _differences(
    model: Any, ours: Capture, found: dict[int, Tensor], logits: Tensor
) -> tuple[float, float]:
    """Of weights and of logits, against the family's own eager attention on the first prompt."""
    tolerance = TOLERANCES[model.dtype]
    eager = torch.stack([found[layer] for layer in ours.layers], 1)
    first = replace(ours, weights=ours.weights[:1])
    weight = _weight_difference(model, first, eager, "eager ones", tolerance.weight)
    return weight, _logit_difference(model, ours.logits[:1], logits, tolerance.relative)


def _shared_difference(model: Any, tokenized: Tokens, whole: Capture, how: Sharing) -> float:
    """Of weights, of queries run as a study runs them against whole prompts."""
    prefix = torch.as_tensor(tokenized.prefix, dtype=torch.long)
    suffixes = torch.as_tensor(tokenized.suffixes[: len(whole.weights)], dtype=torch.long)
    block = next(run_blocks(model, Ask(prefix, suffixes, None, keep_all), how=how))
    ours = stack_layers(Forward(block.kept, block.logits[:, None]), whole.path)
    last, most = whole.weights[:, :, :, -1:], TOLERANCES[model.dtype].weight
    return _weight_difference(model, ours, last, "whole prompts' ones", most)
