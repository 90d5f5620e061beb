"""Tiny peaky models of the families whose queries lie in different places, as if trained."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import transformers as hf

from probes.models import LoadedModel
from probes.shape import model_shape
from tests.probes.model_files import peaky

VOCABULARY, LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 64, 3, 4, 2, 8
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HEADS * HEAD_SIZE,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED: dict[str, Any] = {**SIZES, "num_key_value_heads": KV_HEADS}
OWN_HEADS: dict[str, Any] = {**GROUPED, "head_dim": HEAD_SIZE}
OLD: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": HEADS * HEAD_SIZE,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Family(NamedTuple):
    """How to build a family, and which entries of which parameter make its queries.

    `query` names the parameter endings; `rows` are the query's entries along the output axis
    (None: all), written down here by hand.
    """

    build: Callable[[], Any]
    query: tuple[str, ...]
    rows: list[int] | None = None


def _of(name: str, config: str, *, eager: bool = False, **sizes: Any) -> Callable[[], Any]:
    how = {"attn_implementation": "eager"} if eager else {}

    def build() -> Any:
        family: Any = getattr(hf, name)
        return family._from_config(getattr(hf, config)(**sizes), **how)

    return build


ALL_Q_FIRST = list(range(32))
# Of each head 8 queries, 8 keys, 8 values; of each of two groups 16 queries, 8 keys, 8 values.
BY_HEAD = [24 * head + i for head in range(4) for i in range(8)]
BY_GROUP = [32 * group + i for group in range(2) for i in range(16)]

FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(
        _of("GPT2LMHeadModel", "GPT2Config", **OLD),
        ("attn.c_attn.weight", "attn.c_attn.bias"),
        ALL_Q_FIRST,
    ),
    "llama": Family(_of("LlamaForCausalLM", "LlamaConfig", **GROUPED), ("q_proj.weight",)),
    "qwen2": Family(
        _of("Qwen2ForCausalLM", "Qwen2Config", **GROUPED), ("q_proj.weight", "q_proj.bias")
    ),
    "qwen3": Family(_of("Qwen3ForCausalLM", "Qwen3Config", **OWN_HEADS), ("q_norm.weight",)),
    "gemma3": Family(
        _of("Gemma3ForCausalLM", "Gemma3TextConfig", **OWN_HEADS, sliding_window=16),
        ("q_norm.weight",),
    ),
    "gemma2": Family(
        _of(
            "Gemma2ForCausalLM",
            "Gemma2Config",
            **OWN_HEADS,
            sliding_window=16,
            attn_logit_softcapping=2.0,
            query_pre_attn_scalar=8,
        ),
        ("q_proj.weight",),
    ),
    "phi3": Family(
        _of("Phi3ForCausalLM", "Phi3Config", **GROUPED), ("qkv_proj.weight",), ALL_Q_FIRST
    ),
    "neox": Family(
        _of("GPTNeoXForCausalLM", "GPTNeoXConfig", **SIZES),
        ("query_key_value.weight", "query_key_value.bias"),
        BY_HEAD,
    ),
    "bigcode": Family(
        _of("GPTBigCodeForCausalLM", "GPTBigCodeConfig", **OLD, multi_query=True),
        ("attn.c_attn.weight", "attn.c_attn.bias"),
        ALL_Q_FIRST,
    ),
    "olmo2": Family(_of("Olmo2ForCausalLM", "Olmo2Config", **GROUPED), ("q_norm.weight",)),
    "stablelm": Family(
        _of("StableLmForCausalLM", "StableLmConfig", **GROUPED, qk_layernorm=True),
        tuple(f"q_layernorm.norms.{head}.weight" for head in range(HEADS)),
    ),
    "persimmon": Family(
        _of("PersimmonForCausalLM", "PersimmonConfig", **SIZES, qk_layernorm=True),
        ("q_layernorm.weight", "q_layernorm.bias"),
    ),
    "falcon": Family(
        _of(
            "FalconForCausalLM",
            "FalconConfig",
            **{key: SIZES[key] for key in SIZES if key != "intermediate_size"},
            num_kv_heads=KV_HEADS,
            new_decoder_architecture=True,
            eager=True,
        ),
        ("query_key_value.weight",),
        BY_GROUP,
    ),
}


def trained(family: str, seed: int = 0) -> LoadedModel:
    """A model of this family with every parameter moved off its initialisation."""
    chosen = FAMILIES[family]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = chosen.build()
    peaky(model, seed).requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith(chosen.query):
            parameter.mul_(3).add_(1)  # Gains that differ from an untrained norm's.
    shape = model_shape(model.config)
    return LoadedModel(
        name=family,
        model=model,
        tokenizer=None,
        file_hash="0" * 64,
        revision="",
        dtype="float32",
        device="cpu",
        source="the tests",
        context_window=64,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        layers=shape.layers,
    )
