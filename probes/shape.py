"""The shape of a model's attention, read from its configuration."""

from typing import Any, NamedTuple


class ModelShape(NamedTuple):
    """Heads and key/value heads of a layer, layers, and the context window in tokens.

    `heads` is 0 where the model has no attention; `context_window` is None where the
    configuration names none (relative or no positions).
    """

    heads: int
    kv_heads: int
    layers: int
    context_window: int | None


def model_shape(config: Any) -> ModelShape:
    """What a configuration of transformers says about attention; text part of a mixed model."""
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", 0) or 0
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    if getattr(text, "new_decoder_architecture", False):  # Falcon 40B and later.
        kv_heads = text.num_kv_heads
    elif getattr(text, "multi_query", False):
        kv_heads = 1
    window = getattr(text, "max_position_embeddings", None)
    if window is None:
        window = getattr(text, "max_seq_len", None)
    return ModelShape(heads, kv_heads, text.num_hidden_layers, window)
