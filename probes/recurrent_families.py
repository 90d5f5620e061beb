"""Families with a recurrence or a convolution: beside attention, or in its place."""

from collections.abc import Mapping
from types import MappingProxyType

from probes.family import GROUPED, HEAD_SIZE, VOCABULARY, Family

RECURRENT_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "qwen3-next": Family(
            "Qwen3-Next",
            "qwen3_next",
            "fast",
            "hybrid: only its layers of softmax attention are captured; gated output",
            {
                **HEAD_SIZE,
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
                **HEAD_SIZE,
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
            {**HEAD_SIZE, "layer_types": ["mamba", "attention"]},
        ),
        "lfm2": Family(
            "LFM2",
            "lfm2",
            "fast",
            "hybrid: only its layers of softmax attention are captured",
            {**GROUPED, "layer_types": ["conv", "full_attention"]},
        ),
        "jamba": Family(
            "Jamba",
            "jamba",
            "fast",
            "hybrid: only its layers of softmax attention are captured; no shared prefix",
            {
                **GROUPED,
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
                **GROUPED,
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
            {**GROUPED, "num_hidden_layers": 3, "attention_window_size": 4, "lru_width": 32},
        ),
        "mamba": Family(
            "Mamba",
            "mamba",
            "refused",
            "no attention",
            {**VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
        ),
        "mamba2": Family(
            "Mamba-2",
            "mamba2",
            "refused",
            "no attention",
            {
                **VOCABULARY,
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
            {**VOCABULARY, "hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2},
        ),
    }
)
