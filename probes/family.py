"""What a row of the table of families is, and the settings that make models tiny."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Route = Literal["fast", "eager", "refused"]


class Family(NamedTuple):
    """A family: its name, transformers' name of it, how it is captured, what needs care, and why.

    `route`: "fast" (through the attention interface), "eager" (the family bypasses the interface:
    its own whole maps are read) or "refused". `tiny`: settings that make its configuration a tiny
    model's (for prompts of 30 tokens). `when`: settings by which rows of one `model_type` differ.
    """

    name: str
    model_type: str
    route: Route
    why: str
    tiny: Mapping[str, Any]
    when: Mapping[str, Any] = MappingProxyType({})


VOCABULARY: dict[str, Any] = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
PLAIN: dict[str, Any] = {
    **VOCABULARY,
    "pad_token_id": 0,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
GROUPED: dict[str, Any] = {**PLAIN, "num_key_value_heads": 2}
HEAD_SIZE: dict[str, Any] = {**GROUPED, "head_dim": 8}
