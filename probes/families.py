"""Which families of models are tested, how each is captured, and why.

One row a family: the tests build its tiny model and hold capture to it, docs/families.md and
`hatlens doctor` say what stands here. To add a family is to add a row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from transformers import AutoConfig

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


_VOCABULARY: dict[str, Any] = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN: dict[str, Any] = {
    **_VOCABULARY,
    "pad_token_id": 0,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
_GROUPED: dict[str, Any] = {**_PLAIN, "num_key_value_heads": 2}
_HEAD_SIZE: dict[str, Any] = {**_GROUPED, "head_dim": 8}
_GPT: dict[str, Any] = {**_VOCABULARY, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}
_WINDOW: dict[str, Any] = {"sliding_window": 4}
_TWO_KINDS: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"]}
_LAYER_WORDS: dict[str, Any] = {
    "vocab_size_per_layer_input": 512,
    "hidden_size_per_layer_input": 8,
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "num_local_experts": 4}

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt2": Family("GPT-2", "gpt2", "fast", "learned positions", _GPT),
        "gpt-neo": Family(
            "GPT-Neo",
            "gpt_neo",
            "eager",
            "bypasses the interface; every other layer sees 256 tokens only; scores unscaled",
            {
                **_VOCABULARY,
                "hidden_size": 32,
                "num_heads": 4,
                "num_layers": 2,
                "window_size": 4,
                "max_position_embeddings": 64,
                "attention_types": [[["global", "local"], 1]],
            },
        ),
        "gpt-j": Family(
            "GPT-J", "gptj", "fast", "rotary on part of each head", {**_GPT, "rotary_dim": 4}
        ),
        "gpt-neox": Family(
            "GPT-NeoX, Pythia",
            "gpt_neox",
            "fast",
            "queries, keys and values of each head in one matrix; rotary on part of each head",
            _PLAIN,
        ),
        "gpt-bigcode": Family(
            "GPT-BigCode (StarCoder)",
            "gpt_bigcode",
            "fast",
            "one key/value head for all heads",
            {**_GPT, "multi_query": True},
        ),
        "opt": Family(
            "OPT",
            "opt",
            "fast",
            "learned positions, offset by 2",
            {**_PLAIN, "ffn_dim": 48, "word_embed_proj_dim": 32},
        ),
        "bloom": Family(
            "BLOOM",
            "bloom",
            "eager",
            "bypasses the interface; ALiBi",
            {**_VOCABULARY, "hidden_size": 32, "n_head": 4, "n_layer": 2},
        ),
        "mpt": Family(
            "MPT",
            "mpt",
            "eager",
            "bypasses the interface; ALiBi",
            {**_VOCABULARY, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
        ),
        "falcon-7b": Family(
            "Falcon, old decoder (7B)",
            "falcon",
            "eager",
            "bypasses the interface; one key/value head; its fused maps are not causal",
            {**_PLAIN, "multi_query": True},
            {"new_decoder_architecture": False},
        ),
        "falcon-40b": Family(
            "Falcon, new decoder (40B)",
            "falcon",
            "eager",
            "bypasses the interface; grouped heads; its fused maps are not causal",
            {**_PLAIN, "num_kv_heads": 2, "new_decoder_architecture": True},
            {"new_decoder_architecture": True},
        ),
        "xglm": Family(
            "XGLM",
            "xglm",
            "eager",
            "bypasses the interface; sinusoidal positions, offset by 2",
            {
                **_VOCABULARY,
                "d_model": 32,
                "ffn_dim": 48,
                "num_layers": 2,
                "attention_heads": 4,
                "max_position_embeddings": 64,
                "pad_token_id": 0,
            },
        ),
        "llama": Family("Llama, SmolLM2", "llama", "fast", "grouped heads, rotary", _GROUPED),
        "mistral": Family(
            "Mistral",
            "mistral",
            "fast",
            "sliding window in every layer: examples outside it are unseen",
            {**_GROUPED, **_WINDOW},
        ),
        "mixtral": Family(
            "Mixtral", "mixtral", "fast", "as Mistral, with experts", {**_GROUPED, **_EXPERTS}
        ),
        "qwen2": Family("Qwen2, Qwen2.5", "qwen2", "fast", "biases on queries and keys", _GROUPED),
        "qwen3": Family("Qwen3", "qwen3", "fast", "queries and keys normalised", _HEAD_SIZE),
        "gemma2": Family(
            "Gemma-2",
            "gemma2",
            "fast",
            "scores capped by tanh; sliding window in every other layer",
            {**_HEAD_SIZE, **_WINDOW, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0},
        ),
        "gemma3": Family(
            "Gemma-3",
            "gemma3_text",
            "fast",
            "queries and keys normalised; sliding window in five layers of six, other rotary there",
            {**_HEAD_SIZE, **_WINDOW, **_TWO_KINDS, "query_pre_attn_scalar": 8},
        ),
        "gemma3n": Family(
            "Gemma-3n",
            "gemma3n_text",
            "fast",
            "its last layers reuse the keys of earlier ones; sliding window in most layers",
            {
                **_HEAD_SIZE,
                **_WINDOW,
                "num_hidden_layers": 4,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "num_kv_shared_layers": 2,
                "intermediate_size": [48] * 4,
                "activation_sparsity_pattern": [0.0] * 4,
                **_LAYER_WORDS,
                "laurel_rank": 4,
            },
        ),
        "gemma4": Family(
            "Gemma-4",
            "gemma4_text",
            "fast",
            "sliding window in most layers; its last layers may reuse the keys of earlier ones",
            {**_HEAD_SIZE, **_WINDOW, **_TWO_KINDS, **_LAYER_WORDS, "global_head_dim": 8},
        ),
        "phi3": Family(
            "Phi-3, Phi-4-mini",
            "phi3",
            "fast",
            "queries, keys and values in one matrix; longrope: past its limit no shared prefix",
            {**_GROUPED, **_WINDOW},
        ),
        "olmo2": Family(
            "OLMo-2", "olmo2", "fast", "queries and keys normalised over all heads", _GROUPED
        ),
        "granite": Family(
            "Granite",
            "granite",
            "fast",
            "its own score scale",
            {**_GROUPED, "attention_multiplier": 0.2},
        ),
        "stablelm": Family(
            "StableLM",
            "stablelm",
            "fast",
            "rotary on part of each head, a norm for each head",
            {**_GROUPED, "qk_layernorm": True},
        ),
        "smollm3": Family(
            "SmolLM3",
            "smollm3",
            "fast",
            "no rotary in every fourth layer",
            {**_GROUPED, "no_rope_layers": [1, 0]},
        ),
        "gpt-oss": Family(
            "GPT-OSS",
            "gpt_oss",
            "fast",
            "learned sinks take part of each row; sliding window in every other layer",
            {**_HEAD_SIZE, **_WINDOW, **_EXPERTS},
        ),
        "qwen3-next": Family(
            "Qwen3-Next",
            "qwen3_next",
            "fast",
            "hybrid: only its layers of softmax attention are captured; gated output",
            {
                **_HEAD_SIZE,
                "layer_types": ["linear_attention", "full_attention"],
                "num_experts": 4,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 16,
                "shared_expert_intermediate_size": 16,
                "linear_num_value_heads": 4,
                "linear_num_key_heads": 2,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
            },
        ),
        "qwen3.5": Family(
            "Qwen3.5",
            "qwen3_5_text",
            "fast",
            "hybrid: only its layers of softmax attention are captured; gated output",
            {
                **_HEAD_SIZE,
                "layer_types": ["linear_attention", "full_attention"],
                "linear_num_value_heads": 4,
                "linear_num_key_heads": 2,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
            },
        ),
        "nemotron-h": Family(
            "Nemotron-H",
            "nemotron_h",
            "fast",
            "hybrid: only its layers of softmax attention are captured; no shared prefix",
            {**_HEAD_SIZE, "layer_types": ["mamba", "attention"]},
        ),
        "lfm2": Family(
            "LFM2",
            "lfm2",
            "fast",
            "hybrid: only its layers of softmax attention are captured",
            {**_GROUPED, "layer_types": ["conv", "full_attention"]},
        ),
        "jamba": Family(
            "Jamba",
            "jamba",
            "fast",
            "hybrid: only its layers of softmax attention are captured; no shared prefix",
            {
                **_GROUPED,
                "attn_layer_period": 2,
                "attn_layer_offset": 1,
                "num_experts": 4,
                "mamba_d_state": 8,
                "use_mamba_kernels": False,
            },
        ),
        "falcon-h1": Family(
            "Falcon-H1",
            "falcon_h1",
            "fast",
            "hybrid: softmax attention beside a recurrence in every layer",
            {
                **_GROUPED,
                "mamba_d_ssm": 64,
                "mamba_d_state": 8,
                "mamba_n_heads": 8,
                "mamba_d_head": 8,
                "mamba_n_groups": 1,
            },
        ),
        "recurrent-gemma": Family(
            "RecurrentGemma",
            "recurrent_gemma",
            "fast",
            "hybrid: only its windowed layers of attention are captured; no shared prefix, and no "
            "padding on the left, which enters its recurrence",
            {**_GROUPED, "num_hidden_layers": 3, "attention_window_size": 4, "lru_width": 32},
        ),
        "cohere2": Family(
            "Command R7B (Cohere-2)",
            "cohere2",
            "fast",
            "sliding window in three layers of four, no rotary in the fourth",
            {**_GROUPED, **_WINDOW, **_TWO_KINDS},
        ),
        "llama4": Family(
            "Llama-4",
            "llama4_text",
            "fast",
            "attention within chunks of tokens in most layers: examples outside are unseen",
            {
                **_HEAD_SIZE,
                "attention_chunk_size": 4,
                "num_local_experts": 2,
                "intermediate_size_mlp": 48,
                "layer_types": ["chunked_attention", "full_attention"],
            },
        ),
        "deepseek-v3": Family(
            "DeepSeek-V3",
            "deepseek_v3",
            "fast",
            "keys and values from one latent vector; values shorter than keys",
            {
                **_PLAIN,
                "num_key_value_heads": 4,
                "q_lora_rank": 16,
                "kv_lora_rank": 16,
                "qk_nope_head_dim": 8,
                "qk_rope_head_dim": 4,
                "v_head_dim": 6,
                "n_routed_experts": 4,
                "n_group": 1,
                "topk_group": 1,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 16,
                "first_k_dense_replace": 1,
            },
        ),
        "mamba": Family(
            "Mamba",
            "mamba",
            "refused",
            "no attention",
            {**_VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
        ),
        "mamba2": Family(
            "Mamba-2",
            "mamba2",
            "refused",
            "no attention",
            {
                **_VOCABULARY,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "state_size": 8,
                "num_heads": 8,
                "head_dim": 8,
                "n_groups": 1,
            },
        ),
        "rwkv": Family(
            "RWKV",
            "rwkv",
            "refused",
            "no attention in the sense of a softmax over keys",
            {**_VOCABULARY, "hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2},
        ),
    }
)


def family_of(config: Any) -> Family | None:
    """The row of a model's configuration; None for a family that the table lacks."""
    text = config.get_text_config(decoder=True)
    for family in FAMILIES.values():
        same = all(getattr(text, name, None) == value for name, value in family.when.items())
        if family.model_type == text.model_type and same:
            return family
    return None


def tiny_config(family: Family) -> Any:
    """The configuration of a tiny model of this family."""
    return AutoConfig.for_model(family.model_type, **family.tiny)
