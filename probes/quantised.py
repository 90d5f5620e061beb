"""Weights in 8 or 4 bits by bitsandbytes, where it is installed."""

import importlib.util
from typing import Any

import torch

from prompts.refusal import Refusal, unknown_name

QUANTISATIONS = ("8bit", "4bit")


def quantisation(name: str | None, *, dtype: torch.dtype) -> dict[str, Any]:
    """How `from_pretrained` is told to quantise: nothing for None, else an argument.

    `dtype`: in which products with 4-bit weights are computed. Refuses an unknown name, and a
    machine without the package `bitsandbytes`.
    """
    if name is None:
        return {}
    if name not in QUANTISATIONS:
        raise unknown_name("quantisation", name, QUANTISATIONS)
    if importlib.util.find_spec("bitsandbytes") is None:
        raise Refusal(
            f"quantize {name!r} needs the package bitsandbytes (pip install bitsandbytes); it is "
            "not installed here"
        )
    from transformers import BitsAndBytesConfig

    make: Any = BitsAndBytesConfig
    if name == "8bit":
        return {"quantization_config": make(load_in_8bit=True)}
    return {"quantization_config": make(load_in_4bit=True, bnb_4bit_compute_dtype=dtype)}
