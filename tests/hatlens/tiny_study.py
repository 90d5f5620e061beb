"""A tiny GPT-2 in a folder of its own, and a study on it that takes seconds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import GPT2Config, GPT2LMHeadModel

from hatlens.config import build_config
from hatlens.study import run_studies
from tests.probes.model_files import peaky
from tests.prompts.small_tokenizers import single_digits

SETTINGS: dict[str, Any] = {
    "features": 2,
    "examples": 7,
    "contexts": 8,
    "queries": 3,
    "condition": 4.0,
    "pairs": 6,
    "flips": 200,
    "twins": ("shuffled",),
    "seed": 3,
}


def write_gpt2(folder: Path, *, positions: int = 512) -> Path:
    """Two layers of two heads, weights of standard deviation 0.3, one token a digit."""
    tokenizer = single_digits()
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=positions,
        bos_token_id=0,
        eos_token_id=0,
    )
    peaky(GPT2LMHeadModel(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def flags(**changed: Any) -> list[str]:
    """The settings as flags of ``hatlens probe``."""
    return flag_words({**SETTINGS, **changed})


def flag_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags; a tuple is a flag given several times."""
    words: list[str] = []
    for key, value in settings.items():
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{key.replace('_', '-')}", str(one)]
    return words


def added_later(out: Path, first: Mapping[str, Any], part: str, later: Mapping[str, Any]) -> None:
    """Run a study, then again with settings that add a part to its result: no cell is redone."""
    assert part not in run_studies([build_config(dict(first))], out)
    before = {file: file.stat().st_mtime_ns for file in out.glob("r*/**/*.npz")}
    assert before
    assert part in run_studies([build_config({**first, **later})], out)
    assert {file: file.stat().st_mtime_ns for file in before} == before
