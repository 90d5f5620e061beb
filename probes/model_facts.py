"""What a model's family and configuration mean for capture: its path, layers, and sharing."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from prompts.refusal import Refusal

Path = Literal["fast", "eager", "reference"]
Sharing = Literal["packed", "cached", "expanded", "whole"]

_NO_ATTENTION = ("linear_attention", "mamba", "recurrent", "conv", "moe", "mlp")
_WINDOWED = ("sliding", "chunked", "local")
_LENGTH_DEPENDENT = ("dynamic", "longrope")
# Their recurrent layers do on a cache what they do not do in a whole prompt (5.24): read several
# tokens as if nothing came before, or (Nemotron-H) one token by another formula.
_FORGETS_ITS_CACHE = ("jamba", "bamba", "recurrent_gemma", "nemotron_h")

# A cache holds other keys than a layer's own: another layer's, or the latents that keys come from.
_OTHER_KEYS = ("num_kv_shared_layers", "kv_lora_rank")
# JetMoe repeats what its cache holds, Doge makes masks from it.
_OTHER_USE_OF_CACHE = ("jetmoe", "doge")


def the_module(model: Any) -> Any:
    """The torch module itself, of a loaded model or of a module."""
    return model if isinstance(model, nn.Module) else model.model


def model_name(model: Any) -> str:
    config = getattr(model, "config", None)
    return str(getattr(config, "name_or_path", "") or type(model).__name__)


def text_config(model: Any) -> Any:
    return model.config.get_text_config(decoder=True)


def layer_types(model: Any) -> list[str]:
    """The kind of each layer as the configuration names it, "" where it names none."""
    config = text_config(model)
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    if types is None:
        return [""] * int(getattr(config, "num_hidden_layers", 0))
    return [str(kind) for kind in types]


def attention_layers(model: Any) -> tuple[int, ...]:
    """Indices of the layers that hold softmax attention, as the configuration says."""
    return tuple(
        i
        for i, kind in enumerate(layer_types(model))
        if not any(word in kind for word in _NO_ATTENTION)
    )


def window(model: Any) -> int | None:
    """The shortest window of any attention layer in tokens, None without one.

    Refuses a window below one token, at which the model itself fails.
    """
    config = text_config(model)
    found = getattr(config, "sliding_window", None)
    if found is not None and found < 1:
        raise Refusal(
            f"needed a sliding window of at least 1 token, or null for none, came {found!r}",
            where=model_name(model),
        )
    sizes = (found, getattr(config, "attention_chunk_size", None))
    known = [int(size) for size in sizes if size is not None]
    windowed = any(word in kind for kind in layer_types(model) for word in _WINDOWED)
    if not known:
        return 1 if windowed else None
    return min(known)


def attention_path(model: Any) -> Path:
    """How attention is captured: "fast" through the interface, "eager" from whole maps.

    Refuses a model without attention, one in training mode, and one that bypasses the interface
    and was not built with eager attention.
    """
    layers = attention_layers(model) if hasattr(model, "config") else ()
    if not layers or not getattr(text_config(model), "num_attention_heads", None):
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise Refusal(
            f"needed a model with attention layers, came {kind!r}, which has none",
            where=model_name(model),
        )
    if model.training:
        raise Refusal(
            "needed a model in evaluation mode, came one in training mode, whose dropout is random",
            where=model_name(model),
        )
    window(model)
    if model._can_set_attn_implementation():
        return "fast"
    if model.config._attn_implementation != "eager":
        raise Refusal(
            "needed a model loaded with attention='eager', since its family bypasses the "
            f"attention interface, came {model.config._attn_implementation!r}",
            where=model_name(model),
        )
    return "eager"


def _rope_parameters(config: Any) -> list[dict[str, Any]]:
    parameters = getattr(config, "rope_parameters", None) or {}
    if "rope_type" in parameters:
        return [parameters]
    return [value for value in parameters.values() if isinstance(value, dict)]


def positions_depend_on_length(model: Any, length: int) -> bool:
    """Whether a prompt of `length` tokens has other positions than its own beginning.

    So it is past the limit of dynamic NTK and longrope embeddings.
    """
    config = text_config(model)
    for parameters in _rope_parameters(config):
        if parameters.get("rope_type") in _LENGTH_DEPENDENT:
            limit = parameters.get("original_max_position_embeddings")
            limit = limit or getattr(config, "original_max_position_embeddings", None)
            if length > (limit or config.max_position_embeddings):
                return True
    return False


def forget_lengths(model: Any) -> None:
    """Bring dynamic NTK positions back to their start.

    Such an embedding keeps the frequencies of the longest prompt it has seen, so that what a
    model returns would depend on what it was given before.
    """
    if not any(p.get("rope_type") == "dynamic" for p in _rope_parameters(text_config(model))):
        return
    for module in model.modules():
        if not hasattr(module, "original_max_seq_len"):
            continue
        held = [*vars(module), *(name for name, _ in module.named_buffers(recurse=False))]
        names = [name for name in held if name.endswith("original_inv_freq")]
        for name in names:
            device = getattr(module, name.replace("original_", "")).device
            start = getattr(module, name).to(device)
            module.register_buffer(name.replace("original_", ""), start, persistent=False)
            longest = name.replace("original_inv_freq", "max_seq_len_cached")
            setattr(module, longest, module.original_max_seq_len)


def sharing(model: Any, length: int) -> Sharing:
    """How queries of one context share their prefix, for prompts of `length` tokens with answer.

    "packed": one forward over the prefix and all suffixes; "cached": suffixes on a cache that is
    stored once (a window shorter than the prompt); "expanded": on a copy of the cache each
    (recurrent layers, a cache that holds other keys than the layer's own); "whole": no sharing,
    since it would not be exact (length-dependent positions, recurrent layers that forget their
    cache) or the family has no fast path.
    """
    if attention_path(model) == "eager" or positions_depend_on_length(model, length):
        return "whole"
    config = text_config(model)
    if config.model_type in _FORGETS_ITS_CACHE:
        return "whole"
    kinds = layer_types(model)
    # A "hybrid" layer holds attention and a recurrence side by side.
    recurrent = len(attention_layers(model)) < len(kinds) or "hybrid" in kinds
    other_keys = any(getattr(config, name, None) for name in _OTHER_KEYS)
    if recurrent or other_keys or config.model_type in _OTHER_USE_OF_CACHE:
        return "expanded"
    short = window(model)
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    if (short is not None and short < length) or not takes_positions:
        return "cached"
    return "packed"


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


def cache_argument(model: Any) -> str:
    """The name under which this model's forward takes a key/value cache."""
    known = inspect.signature(model.forward).parameters
    return "cache" if "cache" in known else "past_key_values"


def keeps_few_logits(model: Any) -> bool:
    """Whether this model's forward can give the logits of a few positions alone."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters


def input_device(model: Any) -> torch.device:
    """Where this model's tokens go (a sharded or offloaded model's first device)."""
    embedding = model.get_input_embeddings()
    if embedding.weight.is_meta:  # Its weights are fetched when it is called.
        return torch.device(embedding._hf_hook.execution_device)
    return torch.device(embedding.weight.device)
