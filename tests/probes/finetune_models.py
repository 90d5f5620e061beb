"""Tiny models for fine-tuning, and where each family keeps its keys and values, by hand."""

import copy
import functools
import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from probes.families import FAMILIES, tiny_config
from tests.probes.tiny_models import peaky, random_ids


class KeyValueEntries(NamedTuple):
    """Which parameter endings hold keys and values, and at which entries of the output axis."""

    endings: tuple[str, ...]
    rows: list[int] | None = None
    axis: int = 0


_OF_EACH_HEAD = [head * 24 + place for head in range(4) for place in range(8, 24)]
KEYS_AND_VALUES: Mapping[str, KeyValueEntries] = {
    "gpt2": KeyValueEntries(("c_attn.weight", "c_attn.bias"), list(range(32, 96)), axis=1),
    "llama": KeyValueEntries(("k_proj.weight", "v_proj.weight")),
    "xglm": KeyValueEntries(
        ("k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias"),
    ),
    "gpt-neox": KeyValueEntries(("query_key_value.weight", "query_key_value.bias"), _OF_EACH_HEAD),
    # 4 heads of queries, then 2 of keys, then 2 of values, of 8 numbers each.
    "phi3": KeyValueEntries(("qkv_proj.weight",), list(range(32, 64))),
    "qwen3": KeyValueEntries(("k_proj.weight", "v_proj.weight")),
    "bloom": KeyValueEntries(("query_key_value.weight", "query_key_value.bias"), _OF_EACH_HEAD),
    "mpt": KeyValueEntries(("Wqkv.weight",), list(range(32, 96))),
    # All 4 heads of queries, one of keys, one of values.
    "falcon-7b": KeyValueEntries(("query_key_value.weight",), list(range(32, 48))),
    # Of each of 2 groups: 2 heads of queries, one of keys, one of values.
    "falcon-40b": KeyValueEntries(("query_key_value.weight",), [*range(16, 32), *range(48, 64)]),
}

# Its code makes a float32 tensor of the least float64 number, which overflows (transformers 5.24).
ONLY_FLOAT32 = ("xglm",)


@functools.cache
def _built(name: str, scale: float) -> Any:
    family = FAMILIES[name]
    builder: Any = AutoModelForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = builder.from_config(
            tiny_config(family),
            attn_implementation="eager" if family.route == "eager" else None,
        )
    model = peaky(model)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(scale)
    return model


def tiny_family(name: str, *, scale: float = 1.0, double: bool = False) -> Any:
    """The peaky tiny model of a family, a new one each time; matrices times `scale`.

    `double`: float64, where the family's code can.
    """
    model = copy.deepcopy(_built(name, scale))
    return model.double() if double and name not in ONLY_FLOAT32 else model


def closeness(name: str, double: float, single: float) -> float:
    """The tolerance for a model built with `double=True`."""
    return single if name in ONLY_FLOAT32 else double


def demonstrations(*lengths: int, seed: int = 0) -> tuple[NDArray[np.int64], ...]:
    """Token arrays of these lengths."""
    return tuple(
        random_ids(length, seed=seed + place).numpy() for place, length in enumerate(lengths)
    )


def weights_hash(model: Any) -> str:
    """SHA-256 over the bytes of every parameter and buffer."""
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
