"""A small task of words, tiny models that read it, and a comparison that takes seconds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from transformers import LlamaConfig, LlamaForCausalLM

from tests.hatlens.tiny_study import flag_words
from tests.probes.model_files import peaky
from tests.prompts.small_tokenizers import single_digits

SETTINGS: dict[str, Any] = {
    "demos": 3,
    "queries": 10,
    "sets": 2,
    "twins": ("shuffled",),
    "lr": 0.3,
}


def write_llama(folder: Path) -> Path:
    """Two layers of four heads on two key/value heads, rotary positions."""
    tokenizer = single_digits()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
        max_position_embeddings=1024,
    )
    peaky(LlamaForCausalLM(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_task(folder: Path, *, count: int = 60) -> Path:
    """A YAML file with the labels No and Yes, and its data file beside it."""
    rng = np.random.default_rng(0)
    words = ["ash", "bay", "cat", "dim", "elk", "fog", "gum", "hut", "ink", "jar"]
    lines = [
        {"text": " ".join(rng.choice(words, 4)) + f" {i}", "label": ("No", "Yes")[i % 2]}
        for i in range(count)
    ]
    (folder / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = folder / "own.yaml"
    file.write_text("template: 'T: {text} L:'\nlabels: [No, Yes]\ndata: texts.jsonl\n")
    return file


def flags(**changed: Any) -> list[str]:
    """The settings as flags of ``hatlens similarity``."""
    return flag_words({**SETTINGS, **changed})
