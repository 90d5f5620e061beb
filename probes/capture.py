"""Scores and weights of a few query positions, from one forward of a language model."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probes.attention import NAME, LayerRows, Recorder, recording
from prompts.refusal import Refusal

_NO_ATTENTION = ("linear_attention", "mamba", "recurrent", "conv", "moe", "mlp")


@dataclass(frozen=True)
class Capture:
    """Attention from the asked positions, and the logits there.

    `scores`, `weights`: float32 (batch, layer, head, query, key), keys counted from the first
    token of the prompt. Scores are what enters the softmax (scaled; softcap and position bias
    applied) and -inf at keys that are hidden by the mask or outside the layer's window; weights
    are 0 there. Neither holds NaN. `sink` (batch, layer, head, query): mass on a learned sink.
    `logits` (batch, query, vocabulary). `layers`: the model's own index of each captured layer.
    """

    scores: Tensor
    weights: Tensor
    sink: Tensor | None
    logits: Tensor
    layers: tuple[int, ...]
    path: str


class Forward(NamedTuple):
    """What one recorded forward kept of each layer, and its logits at the asked rows."""

    kept: dict[int, Any]
    logits: Tensor


def the_module(model: Any) -> Any:
    """The torch module itself, of a loaded model or of a module."""
    return model if isinstance(model, nn.Module) else model.model


def model_name(model: nn.Module) -> str:
    config = getattr(model, "config", None)
    return str(getattr(config, "name_or_path", "") or type(model).__name__)


def attention_layers(model: nn.Module) -> tuple[int, ...]:
    """Indices of the layers that hold softmax attention, as the model's configuration says."""
    config: Any = model.config
    config = config.get_text_config(decoder=True)
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    if types is None:
        return tuple(range(int(getattr(config, "num_hidden_layers", 0))))
    return tuple(
        i for i, kind in enumerate(types) if not any(word in str(kind) for word in _NO_ATTENTION)
    )


def attention_path(model: nn.Module) -> str:
    """How attention is captured: "fast" through the interface, "eager" from whole maps.

    Refused: a model whose layers hold no attention; one that bypasses the interface and was not
    built with eager attention; a sliding window below one token.
    """
    config: Any = getattr(model, "config", None)
    if config is None or getattr(config, "num_attention_heads", 1) in (0, None):
        raise Refusal("needed a model with attention layers", where=model_name(model))
    window = getattr(config.get_text_config(decoder=True), "sliding_window", None)
    if window is not None and window < 1:
        raise Refusal(
            f"needed a sliding window of at least 1 token or none (null), came {window!r}",
            where=model_name(model),
        )
    if model._can_set_attn_implementation():  # type: ignore[operator]
        return "fast"
    if config._attn_implementation != "eager":
        raise Refusal(
            "needed a model loaded with attention='eager', since its family bypasses the "
            f"attention interface; came {config._attn_implementation!r}",
            where=model_name(model),
        )
    return "eager"


@contextmanager
def attention_implementation(model: Any, name: str) -> Iterator[None]:
    """Run the block under another attention implementation; the former one is back afterwards."""
    former = model.config._attn_implementation
    if former != name:
        model.set_attn_implementation(name)
    try:
        yield
    finally:
        if former != name:
            model.set_attn_implementation(former)


def cache_argument(model: nn.Module) -> str:
    """The name under which this model's forward takes a key/value cache."""
    known = inspect.signature(model.forward).parameters
    return "cache" if "cache" in known else "past_key_values"


def input_device(model: Any) -> torch.device:
    """Where this model's tokens go (a sharded model's first device)."""
    device = model.get_input_embeddings().weight.device
    return device if isinstance(device, torch.device) else torch.device(device)


def _run(model: Any, ids: Tensor, rows: Tensor, arguments: dict[str, Any]) -> Any:
    if "logits_to_keep" in inspect.signature(model.forward).parameters and rows.dim() == 1:
        arguments["logits_to_keep"] = rows
        return model(input_ids=ids, **arguments).logits
    logits = model(input_ids=ids, **arguments).logits
    if rows.dim() == 1:
        return logits[:, rows]
    return torch.take_along_dim(logits, rows[..., None], dim=1)


@torch.inference_mode()
def recorded_forward(
    model: Any,
    ids: Tensor,
    rows: Tensor,
    *,
    keep: Callable[[LayerRows], Any],
    cache: Any = None,
    past: int = 0,
    **masks: Tensor | None,
) -> Forward:
    """One fused forward that keeps `keep(rows)` of every layer, keyed by the layer's index.

    `ids` (batch, token) are the tokens after the `past` tokens that `cache` holds; `rows` index
    them. The cache, if any, grows by them. Refuses when an attention layer was not called once.
    """
    device = input_device(model)
    rows = rows.to(device)
    arguments = {name: value for name, value in masks.items() if value is not None}
    if cache is not None:
        arguments |= {cache_argument(model): cache, "use_cache": True}
    else:
        arguments["use_cache"] = False
    recorder = Recorder(rows, past, keep)
    with attention_implementation(model, NAME), recording(recorder):
        logits = _run(model, ids.to(device), rows, arguments)
    _check_calls(model, recorder)
    return Forward(recorder.kept, logits.float())


def _check_calls(model: nn.Module, recorder: Recorder) -> None:
    for layer in attention_layers(model):
        if (calls := recorder.calls[layer]) != 1:
            raise Refusal(
                f"needed one call of the attention function, came {calls!r}",
                where=f"{model_name(model)}, layer {layer}",
            )


def _pad_keys(rows: LayerRows) -> LayerRows:
    """Columns of hidden keys before the first key that a windowed layer still holds."""
    missing = (rows.first_key, 0)
    return LayerRows(
        nn.functional.pad(rows.scores, missing, value=-torch.inf),
        nn.functional.pad(rows.weights, missing),
        rows.sink,
        0,
    )


def _on_cpu(rows: LayerRows) -> LayerRows:
    rows = _pad_keys(rows)
    sink = None if rows.sink is None else rows.sink.cpu()
    return LayerRows(rows.scores.cpu(), rows.weights.cpu(), sink, 0)


def _stack(kept: dict[int, LayerRows], logits: Tensor, path: str) -> Capture:
    layers = tuple(sorted(kept))
    sinks = [kept[i].sink for i in layers if kept[i].sink is not None]
    return Capture(
        scores=torch.stack([kept[i].scores for i in layers], 1),
        weights=torch.stack([kept[i].weights for i in layers], 1),
        sink=torch.stack([s for s in sinks if s is not None], 1) if sinks else None,
        logits=logits.cpu(),
        layers=layers,
        path=path,
    )


def capture(
    model: Any,
    ids: Tensor,
    positions: Tensor,
    *,
    cache: Any = None,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Capture:
    """Scores, weights and logits at the asked positions of a token batch.

    `model`: a loaded model or its module. `ids` (batch, token). `positions` (query,) or, for
    padded batches, (batch, query); counted from the first token of the prompt, cached tokens
    included. `cache`: keys and values of earlier tokens; it grows by `ids`. Memory grows with
    layers x heads x asked positions x tokens.
    """
    module = the_module(model)
    past = 0 if cache is None else int(cache.get_seq_length())
    rows = torch.as_tensor(positions) - past
    if rows.numel() == 0 or int(rows.min()) < 0 or int(rows.max()) >= ids.shape[1]:
        raise Refusal(
            f"needed positions from {past} to {past + ids.shape[1] - 1}, "
            f"came {torch.as_tensor(positions).tolist()!r}",
            where=model_name(module),
        )
    if attention_path(module) == "eager":
        raise Refusal("eager capture is not there yet", where=model_name(module))
    forward = recorded_forward(
        module,
        ids,
        rows,
        keep=_on_cpu,
        cache=cache,
        past=past,
        attention_mask=attention_mask,
        position_ids=position_ids,
    )
    return _stack(forward.kept, forward.logits, "fast")
