"""A language model that is known to regress: it reads and writes lines of numbers, no English.

A four-layer transformer over characters, trained from scratch on text prompts only, each with a
line of its own. What it computes is known by its answers; what its heads do is not.
"""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from probes.read_model import quiet
from prompts.layouts import Layout, layout_named
from prompts.numerals import Codec, codec_named

NAME = "text-regressor"
BEGIN, UNKNOWN = "<s>", "<unk>"
ALPHABET = (BEGIN, UNKNOWN, "\n", *(chr(code) for code in range(32, 127)))
FEATURES, EXAMPLES = 1, 8
WINDOW = 128


def regressor_layout() -> Layout:
    """One example a line, e.g. ``37;52``."""
    return layout_named("{x1};{y}")


def regressor_codec() -> Codec:
    """Two digits, 00 to 99."""
    return codec_named("unsigned-integer(2,0)")


def character_tokenizer() -> Any:
    """A fast tokenizer with one token a character and ``<s>`` before every text."""
    ids = {character: number for number, character in enumerate(ALPHABET)}
    backend = Tokenizer(models.WordLevel(vocab=ids, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, ids[BEGIN])]
    )
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=backend,
        bos_token=BEGIN,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
    )


def new_regressor(*, seed: int) -> Any:
    """The untrained model, a GPT-2 of about 200,000 parameters: 4 layers of 4 heads, width 64."""
    config = GPT2Config(
        vocab_size=len(ALPHABET),
        n_positions=WINDOW,
        n_embd=64,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=ALPHABET.index(BEGIN),
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT2LMHeadModel(config)


def save_regressor(model: Any, made_by: dict[str, Any], folder: Path) -> None:
    """Write a folder that `load_model` reads, and ``training.json``: what made the weights."""
    with quiet():
        model.save_pretrained(folder)
        character_tokenizer().save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(made_by, indent=1) + "\n", "utf-8")
