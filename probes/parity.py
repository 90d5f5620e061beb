"""The gate at every load: what is captured is what the model does, or nothing is probed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from probes.attention import LayerCall, Recorder, kernel_name
from probes.capture import Capture, capture, keep_all, stack_layers
from probes.forward import Forward, recorded_logits
from probes.model_facts import (
    Path,
    Sharing,
    attention_implementation,
    attention_path,
    forget_lengths,
    input_device,
    sharing,
    the_module,
)
from probes.parity_checks import (
    TOLERANCES,
    logit_difference,
    refuse_foreign_ids,
    refuse_future,
    refuse_heads,
    refuse_layers,
    weight_difference,
)
from probes.parity_shared import shared_differences
from probes.rows import Tokens
from probes.scores import KeyValues, take_rows
from probes.shape import model_shape

_SAMPLED_ROWS = 6


@dataclass(frozen=True)
class ParityReport:
    """What the gate found on one prompt of the study's own length (`tokens`).

    Differences are against the family's own eager attention (`max_logit_difference`,
    `max_weight_difference`), and of prompts that share their prefix against whole prompts
    (`max_shared_difference`, weights; `max_continued_difference`, logits of two tokens of the
    answer). `rows_checked`: query rows compared in each layer. `kernels`: what computes the
    layers' output, such as torch's FLASH_ATTENTION ("maps": whole eager maps).
    """

    passed: bool
    path: Path
    sharing: Sharing
    max_logit_difference: float
    max_weight_difference: float
    max_shared_difference: float
    max_continued_difference: float
    layers_captured: int
    heads: int
    kv_heads: int
    rows_checked: int
    tokens: int
    dtype: str
    kernels: tuple[str, ...]


@dataclass
class _ShapeRecorder(Recorder):
    """A recorder that also notes each layer's (query heads, key/value heads) and its kernel."""

    shapes: dict[int, tuple[int, int]] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        self.shapes[call.layer] = call.query.shape[1], call.key.shape[1]
        self.kernels.add(kernel_name(call))
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


def _recorded(model: Any, ids: Tensor, rows: Tensor, path: Path) -> tuple[Capture, tuple[str, ...]]:
    if path == "eager":
        return capture(model, ids, rows), ("maps",)
    recorder = _ShapeRecorder(rows, 0, keep_all)
    logits = recorded_logits(model, ids, rows, recorder)
    refuse_heads(model, recorder.shapes)
    return stack_layers(Forward(recorder.kept, logits), path), tuple(sorted(recorder.kernels))


def _sampled(length: int) -> Tensor:
    """A few positions of the prompt, the last one last."""
    places = {round(i * (length - 1) / (_SAMPLED_ROWS - 1)) for i in range(_SAMPLED_ROWS)}
    return torch.tensor(sorted(places))


def parity_gate(loaded: Any, tokenized: Tokens) -> ParityReport:
    """Check capture on one context's own prompts; refuses, with layer and figure, where it fails.

    Compared with the family's own eager attention on the same weights (no second copy is
    loaded): logits and weights on a sample of rows (logits only for a family that bypasses the
    interface, whose own maps are what is captured). Also: no mass on later tokens, every
    attention layer captured once, heads in whole groups, ids for which there are embeddings, and
    prompts that share a prefix, and the answers read on behind them, equal whole prompts.
    """
    model = the_module(loaded)
    path = attention_path(model)
    prefix, suffixes = torch.as_tensor(tokenized.prefix), torch.as_tensor(tokenized.suffixes[:2])
    ids = torch.cat([prefix.expand(len(suffixes), -1), suffixes], 1).long()
    refuse_foreign_ids(model, int(ids.max()))
    rows = _sampled(ids.shape[1])
    found, logits = _eager(model, ids[:1], rows)
    ours, kernels = _recorded(model, ids, rows, path)
    if path == "eager":
        # Its maps are what is captured, so there is nothing of them left to compare.
        found = {layer: ours.weights[:1, i] for i, layer in enumerate(ours.layers)}
    refuse_layers(model, ours, found)
    refuse_future(model, ours, rows)
    differences = _differences(model, ours, found, logits)
    how = sharing(model, ids.shape[1])
    shared = shared_differences(model, tokenized, ours, how)
    shape = model_shape(model.config)
    return ParityReport(
        passed=True,
        path=path,
        sharing=how,
        max_weight_difference=differences[0],
        max_logit_difference=differences[1],
        max_shared_difference=shared.weight,
        max_continued_difference=shared.continued,
        layers_captured=len(ours.layers),
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        rows_checked=len(rows),
        tokens=ids.shape[1],
        dtype=str(model.dtype).removeprefix("torch."),
        kernels=kernels,
    )


def _differences(
    model: Any, ours: Capture, found: dict[int, Tensor], logits: Tensor
) -> tuple[float, float]:
    """Of weights and of logits, against the family's own eager attention on the first prompt."""
    tolerance = TOLERANCES[model.dtype]
    eager = torch.stack([found[layer] for layer in ours.layers], 1)
    first = replace(ours, weights=ours.weights[:1])
    weight = weight_difference(model, first, eager, "eager ones", tolerance.weight)
    said = "capture equal to eager ones"
    return weight, logit_difference(model, ours.logits[:1], logits, said, tolerance.relative)
