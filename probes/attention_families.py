"""Families with softmax attention in every layer, over the whole prompt or a window of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from probes.family import GROUPED, HEAD_SIZE, PLAIN, VOCABULARY, Family

_GPT: dict[str, Any] = {**VOCABULARY, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}
_WINDOW: dict[str, Any] = {"sliding_window": 4}
_TWO_KINDS: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"]}
_LAYER_WORDS: dict[str, Any] = {
    "vocab_size_per_layer_input": 512,
    "hidden_size_per_layer_input": 8,
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "num_local_experts": 4}
ATTENTION_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt2": Family("GPT-2", "gpt2", "fast", "learned positions", _GPT),
        "gpt-neo": Family(
            "GPT-Neo",
            "gpt_neo",
            "eager",
            "bypasses the interface; every other layer sees 256 tokens only; scores unscaled",
            {
                **VOCABULARY,
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
            PLAIN,
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
            {**PLAIN, "ffn_dim": 48, "word_embed_proj_dim": 32},
        ),
        "bloom": Family(
            "BLOOM",
            "bloom",
            "eager",
            "bypasses the interface; ALiBi",
            {**VOCABULARY, "hidden_size": 32, "n_head": 4, "n_layer": 2},
        ),
        "mpt": Family(
            "MPT",
            "mpt",
            "eager",
            "bypasses the interface; ALiBi",
            {**VOCABULARY, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
        ),
        "falcon-7b": Family(
            "Falcon, old decoder (7B)",
            "falcon",
            "eager",
            "bypasses the interface; one key/value head; its fused maps are not causal",
            {**PLAIN, "multi_query": True},
            {"new_decoder_architecture": False},
        ),
        "falcon-40b": Family(
            "Falcon, new decoder (40B)",
            "falcon",
            "eager",
            "bypasses the interface; grouped heads; its fused maps are not causal",
            {**PLAIN, "num_kv_heads": 2, "new_decoder_architecture": True},
            {"new_decoder_architecture": True},
        ),
        "xglm": Family(
            "XGLM",
            "xglm",
            "eager",
            "bypasses the interface; sinusoidal positions, offset by 2",
            {
                **VOCABULARY,
                "d_model": 32,
                "ffn_dim": 48,
                "num_layers": 2,
                "attention_heads": 4,
                "max_position_embeddings": 64,
                "pad_token_id": 0,
            },
        ),
        "llama": Family("Llama, SmolLM2", "llama", "fast", "grouped heads, rotary", GROUPED),
        "mistral": Family(
            "Mistral",
            "mistral",
            "fast",
            "sliding window in every layer: examples outside it are unseen",
            {**GROUPED, **_WINDOW},
        ),
        "mixtral": Family(
            "Mixtral", "mixtral", "fast", "as Mistral, with experts", {**GROUPED, **_EXPERTS}
        ),
        "qwen2": Family("Qwen2, Qwen2.5", "qwen2", "fast", "biases on queries and keys", GROUPED),
        "qwen3": Family("Qwen3", "qwen3", "fast", "queries and keys normalised", HEAD_SIZE),
        "gemma2": Family(
            "Gemma-2",
            "gemma2",
            "fast",
            "scores capped by tanh; sliding window in every other layer",
            {**HEAD_SIZE, **_WINDOW, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0},
        ),
        "gemma3": Family(
            "Gemma-3",
            "gemma3_text",
            "fast",
            "queries and keys normalised; sliding window in five layers of six, other rotary there",
            {**HEAD_SIZE, **_WINDOW, **_TWO_KINDS, "query_pre_attn_scalar": 8},
        ),
        "gemma3n": Family(
            "Gemma-3n",
            "gemma3n_text",
            "fast",
            "its last layers reuse the keys of earlier ones; sliding window in most layers",
            {
                **HEAD_SIZE,
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
            {**HEAD_SIZE, **_WINDOW, **_TWO_KINDS, **_LAYER_WORDS, "global_head_dim": 8},
        ),
        "phi3": Family(
            "Phi-3, Phi-4-mini",
            "phi3",
            "fast",
            "queries, keys and values in one matrix; longrope: past its limit no shared prefix",
            {**GROUPED, **_WINDOW},
        ),
        "olmo2": Family(
            "OLMo-2", "olmo2", "fast", "queries and keys normalised over all heads", GROUPED
        ),
        "granite": Family(
            "Granite",
            "granite",
            "fast",
            "its own score scale",
            {**GROUPED, "attention_multiplier": 0.2},
        ),
        "stablelm": Family(
            "StableLM",
            "stablelm",
            "fast",
            "rotary on part of each head, a norm for each head",
            {**GROUPED, "qk_layernorm": True},
        ),
        "smollm3": Family(
            "SmolLM3",
            "smollm3",
            "fast",
            "no rotary in every fourth layer",
            {**GROUPED, "no_rope_layers": [1, 0]},
        ),
        "gpt-oss": Family(
            "GPT-OSS",
            "gpt_oss",
            "fast",
            "learned sinks take part of each row; sliding window in every other layer",
            {**HEAD_SIZE, **_WINDOW, **_EXPERTS},
        ),
        "cohere2": Family(
            "Command R7B (Cohere-2)",
            "cohere2",
            "fast",
            "sliding window in three layers of four, no rotary in the fourth",
            {**GROUPED, **_WINDOW, **_TWO_KINDS},
        ),
        "llama4": Family(
            "Llama-4",
            "llama4_text",
            "fast",
            "attention within chunks of tokens in most layers: examples outside are unseen",
            {
                **HEAD_SIZE,
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
                **PLAIN,
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
    }
)
