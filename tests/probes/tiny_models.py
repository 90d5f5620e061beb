"""Tiny models with peaky random weights (standard deviation 0.3), and a context by hand.

The default initialisation makes attention uniform, which hides faults of mask, rotation and
scale.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoConfig,
    GptOssConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen3Config,
    Qwen3NextConfig,
)

from probes.rows import PARTS

_SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2}
_DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}


def _gpt2() -> Any:
    sizes: dict[str, Any] = {"n_embd": 32, "n_head": 4, "n_layer": 2}
    return GPT2Config(vocab_size=64, bos_token_id=1, eos_token_id=2, **sizes)


def _gpt_neo() -> Any:
    sizes: dict[str, Any] = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8}
    kinds = [[["global", "local"], 1]]
    return GPTNeoConfig(
        vocab_size=64, attention_types=kinds, bos_token_id=1, eos_token_id=2, **sizes
    )


def _gemma2() -> Any:
    rules: dict[str, Any] = {
        "attn_logit_softcapping": 5.0,
        "query_pre_attn_scalar": 8,
        "sliding_window": 4,
    }
    return Gemma2Config(head_dim=8, **rules, **_SIZES)


def _qwen3_next() -> Any:
    experts: dict[str, Any] = {"num_experts": 4, "moe_intermediate_size": 16} | _EXPERTS
    linear: dict[str, Any] = {
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    }
    return Qwen3NextConfig(
        head_dim=8,
        shared_expert_intermediate_size=16,
        layer_types=["linear_attention", "full_attention"],
        **experts,
        **linear,
        **_SIZES,
    )


CONFIGS: Mapping[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "llama": lambda: LlamaConfig(**_SIZES),
    "mistral": lambda: MistralConfig(sliding_window=4, **_SIZES),
    "mistral-wide-window": lambda: MistralConfig(sliding_window=64, **_SIZES),
    "qwen3": lambda: Qwen3Config(head_dim=8, **_SIZES),
    "gemma2": _gemma2,
    "gpt-oss": lambda: GptOssConfig(
        head_dim=8, sliding_window=4, num_local_experts=4, **_EXPERTS, **_SIZES
    ),
    "qwen3-next": _qwen3_next,
    "gpt-neo": _gpt_neo,
    "llama-dynamic": lambda: LlamaConfig(
        max_position_embeddings=20, rope_parameters=_DYNAMIC, **_SIZES
    ),
    "mamba": lambda: MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=64, state_size=8),
}
FAST = tuple(name for name in CONFIGS if name not in ("gpt-neo", "mamba"))
WITH_ATTENTION = (*FAST, "gpt-neo")


def peaky(model: Any) -> Any:
    """The same model: matrices drawn anew at standard deviation 0.3, vectors shaken by as much."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator) * 0.3
        parameter.data = noise if parameter.dim() > 1 else parameter.data + noise
    return model.eval().requires_grad_(False)


def build(config: Any, *, attention: str = "eager") -> Any:
    """The peaky model of this configuration, the same every time."""
    builder: Any = AutoModelForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = builder.from_config(config, attn_implementation=attention)
    return peaky(model)


def tiny_model(name: str, *, attention: str = "eager") -> Any:
    """The model of this name, built with the given attention."""
    return build(CONFIGS[name](), attention=attention)


def windowed(window: int | None) -> Any:
    """One layer of Mistral with a window of so many tokens."""
    config = MistralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=1,
        max_position_embeddings=64,
        sliding_window=window,
    )
    return build(config)


def forward_shapes(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the token ids of each forward from here on, filled as they are run."""
    shapes: list[tuple[int, ...]] = []
    forward = type(model).forward

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        shapes.append(tuple(options["input_ids"].shape))
        return forward(self, *args, **options)

    monkeypatch.setattr(type(model), "forward", functools.wraps(forward)(counted))
    return shapes


def random_ids(*shape: int, seed: int = 1) -> torch.Tensor:
    """Token ids above the special ones."""
    return torch.randint(3, 64, shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class HandMadeContext:
    """Four examples of six tokens each, three queries of five tokens."""

    prefix: NDArray[np.int64]
    suffixes: NDArray[np.int64]
    parts: Mapping[str, NDArray[np.int64]]
    prefix_answers: NDArray[np.int64]


def hand_made_context(seed: int = 1) -> HandMadeContext:
    """Tokens 0-2 of an example are its x, 3-4 its y, 5 the separator; its y follows token 2."""
    places = np.arange(24).reshape(4, 6)
    parts = dict(zip(PARTS, (places[:, :3], places[:, 3:5], places[:, 5:], places), strict=True))
    return HandMadeContext(
        random_ids(24, seed=seed).numpy(),
        random_ids(3, 5, seed=seed + 100).numpy(),
        parts,
        places[:, 2],
    )


class DigitTokenizer:
    """Decodes token t to a digit, a point or a line end, by t modulo 12."""

    def decode(self, ids: list[int]) -> str:
        return "".join("0123456789.\n"[token % 12] for token in ids)


def loaded(model: Any) -> Any:
    """What a loaded model offers to those who read rows."""
    return SimpleNamespace(model=model, tokenizer=DigitTokenizer())
