"""One recorded forward of a language model: what is kept of each layer, and a few logits."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probes.attention import NAME, Recorder, recording
from probes.model_facts import (
    attention_implementation,
    attention_layers,
    cache_argument,
    forget_lengths,
    input_device,
    keeps_few_logits,
    model_name,
)
from probes.scores import LayerRows, take_rows
from prompts.refusal import Refusal

Keep = Callable[[LayerRows], Any]


class Forward(NamedTuple):
    """What was kept of each layer, by the model's own index, and logits (batch, row, word)."""

    kept: dict[int, Any]
    logits: Tensor


def _logits(model: Any, ids: Tensor, rows: Tensor, arguments: dict[str, Any]) -> Tensor:
    few = keeps_few_logits(model) and rows.dim() == 1
    if few:
        arguments["logits_to_keep"] = rows
    logits: Tensor = model(input_ids=ids, **arguments).logits
    if few:
        return logits.float()
    if rows.dim() == 1:
        return logits[:, rows.to(logits.device)].float()
    return torch.take_along_dim(logits, rows[..., None].to(logits.device), dim=1).float()


@torch.inference_mode()
def recorded_logits(
    model: Any, ids: Tensor, rows: Tensor, recorder: Recorder, *, cache: Any = None, **masks: Any
) -> Tensor:
    """Run `ids` (batch, token) under a recorder; logits (batch, row, word) at `rows` of them.

    The cache, if any, grows by `ids`. Refuses when an attention layer was not called just once.
    """
    device = input_device(model)
    arguments: dict[str, Any] = {
        name: value.to(device) for name, value in masks.items() if value is not None
    }
    arguments["use_cache"] = cache is not None
    if cache is not None:
        arguments[cache_argument(model)] = cache
    if cache is None:
        forget_lengths(model)
    with attention_implementation(model, NAME), recording(recorder):
        logits = _logits(model, ids.to(device), rows.to(device), arguments)
    for layer in attention_layers(model):
        if (calls := recorder.calls[layer]) != 1:
            raise Refusal(
                f"needed one call of the attention function, came {calls!r}",
                where=f"{model_name(model)}, layer {layer}",
            )
    return logits


def _accepted(model: Any, masks: dict[str, Tensor | None]) -> dict[str, Tensor]:
    """The masks that are given, where the model's tokens go; refuses one that it does not take."""
    given = {name: mask.to(input_device(model)) for name, mask in masks.items() if mask is not None}
    for name in given.keys() - inspect.signature(model.forward).parameters.keys():
        kind = model.config.model_type
        raise Refusal(f"needed no {name}, which {kind!r} does not take", where=model_name(model))
    return given


@torch.inference_mode()
def eager_forward(
    model: Any, ids: Tensor, rows: Tensor, *, keep: Keep, **masks: Tensor | None
) -> Forward:
    """A forward of a family that bypasses the interface, from its own whole attention maps.

    Such a map holds weights only: scores are their logarithm, right up to a constant a row, and
    -inf where a weight is 0 (hidden, or too small for the dtype). `masks`: the attention mask and
    position ids of a padded batch, (batch, token).
    """
    arguments = _accepted(model, masks)
    forget_lengths(model)
    output = model(
        input_ids=ids.to(input_device(model)), output_attentions=True, use_cache=False, **arguments
    )
    layers = attention_layers(model)
    if not output.attentions or len(output.attentions) != len(layers):
        raise Refusal(
            f"needed attention maps of {len(layers)} layers, came {len(output.attentions or ())}",
            where=model_name(model),
        )
    kept = {}
    for layer, weights in zip(layers, output.attentions, strict=True):
        asked = take_rows(weights, rows).float()
        kept[layer] = keep(LayerRows(asked.log(), asked, None, 0))
    logits = output.logits
    index = rows.to(logits.device)
    index = index.expand(len(ids), -1) if index.dim() == 1 else index
    return Forward(kept, torch.take_along_dim(logits, index[..., None], dim=1).float())
