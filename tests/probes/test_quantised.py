"""Quantised loading: told to transformers where bitsandbytes is, else refused in a sentence."""

import importlib.util
from pathlib import Path

import pytest
import torch

from probes.models import load_model
from probes.quantised import QUANTISATIONS, quantisation
from prompts.refusal import Refusal
from tests.hatlens.tiny_study import write_gpt2

HERE = importlib.util.find_spec("bitsandbytes") is not None


def test_nothing_is_asked_where_nothing_is_quantised() -> None:
    assert quantisation(None, dtype=torch.float32) == {}


def test_an_unknown_one_lists_the_known() -> None:
    with pytest.raises(Refusal, match="8bit"):
        quantisation("8 bit", dtype=torch.float32)


@pytest.mark.skipif(HERE, reason="bitsandbytes is installed")
@pytest.mark.parametrize("name", QUANTISATIONS)
def test_without_the_package_it_is_refused_before_anything_is_read(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=f"quantize '{name}' needs the package bitsandbytes"):
        load_model(str(write_gpt2(tmp_path / "tiny")), quantize=name)


@pytest.mark.parametrize("name", QUANTISATIONS)
def test_transformers_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: object())
    made = {}

    class Settings:
        def __init__(self, **given: object) -> None:
            made.update(given)

    monkeypatch.setattr("transformers.BitsAndBytesConfig", Settings)
    assert set(quantisation(name, dtype=torch.bfloat16)) == {"quantization_config"}
    assert made[f"load_in_{name}"] is True
    if name == "4bit":
        assert made["bnb_4bit_compute_dtype"] == torch.bfloat16


@pytest.mark.skipif(not HERE, reason="bitsandbytes is not installed")
@pytest.mark.parametrize("name", QUANTISATIONS)
def test_a_quantised_model_is_read(name: str, tmp_path: Path) -> None:
    loaded = load_model(str(write_gpt2(tmp_path / "tiny")), quantize=name)
    assert loaded.layers == 2
