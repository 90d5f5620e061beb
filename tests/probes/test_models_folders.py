"""Model folders: what is loaded from one, and what is refused by name."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from probes.models import load_model
from probes.weight_files import hash_of_files, sha256_of
from tests.probes.model_files import peaky, refused_load, write_folder

pytestmark = pytest.mark.usefixtures("own_caches")


def test_a_folder_is_loaded_ready_to_be_probed(folder: Path) -> None:
    loaded = load_model(str(folder))
    assert (loaded.heads, loaded.kv_heads, loaded.layers, loaded.context_window) == (4, 2, 2, 128)
    assert (loaded.dtype, loaded.device, loaded.revision) == ("float32", "cpu", "")
    assert loaded.source == str(folder)
    assert (
        loaded.file_hash == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    )
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.tokenizer.is_fast


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_number_type_is_the_asked_one(folder: Path, dtype: str) -> None:
    loaded = load_model(str(folder), dtype=dtype)
    assert loaded.dtype == dtype
    assert {p.dtype for p in loaded.model.parameters()} == {getattr(torch, dtype)}


def test_attention_is_chosen_at_construction(folder: Path) -> None:
    assert load_model(str(folder), attention="eager").model.config._attn_implementation == "eager"
    assert load_model(str(folder)).model.config._attn_implementation == "sdpa"


def test_device_auto_spreads_over_what_there_is(folder: Path) -> None:
    loaded = load_model(str(folder), device="auto")
    assert loaded.device in ("cpu", "cuda:0")


def test_shards_are_read_and_hashed_as_sha256sum_lists_them(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    model = write_folder(folder, shard="40KB")
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1
    lines = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in shards)
    loaded = load_model(str(folder))
    assert loaded.file_hash == hashlib.sha256(lines.encode()).hexdigest()
    assert hash_of_files(shards[::-1]) == loaded.file_hash
    ids = torch.tensor([[1, 5, 9]])
    torch.testing.assert_close(loaded.model(ids).logits, model(ids).logits)


def test_probing_never_writes_into_the_file(folder: Path) -> None:
    before = sha256_of(folder / "model.safetensors")
    loaded = load_model(str(folder))
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.zero_()
    assert sha256_of(folder / "model.safetensors") == before


def test_a_missing_part_is_named(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no config.json" in refused_load(str(empty)).sentence
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer" in refused_load(str(folder)).sentence
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    found = refused_load(str(folder))
    assert found.sentence == "only safetensors weights are read; it has pytorch_model.bin"
    assert found.where == str(folder)


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "an adapter" in refused_load(str(tmp_path)).sentence


def test_a_cut_weight_file_is_refused_as_damaged(folder: Path) -> None:
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(raw[:100_000])
    found = refused_load(str(folder))
    assert found.sentence == f"damaged: 100,000 bytes, expected {len(raw):,}"
    assert found.where == str(path)
    for cut in (0, 5, 50):
        path.write_bytes(raw[:cut])
        assert refused_load(str(folder)).sentence.startswith(f"damaged: {cut} bytes")


def test_a_missing_shard_and_a_damaged_index_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    write_folder(folder, shard="40KB")
    last = sorted(folder.glob("*.safetensors"))[-1]
    last.unlink()
    assert last.name in refused_load(str(folder)).sentence
    (folder / "model.safetensors.index.json").write_text("{")
    assert "damaged" in refused_load(str(folder)).sentence


def test_weights_that_the_file_lacks_are_never_drawn_at_random(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "model.layers.1.self_attn.q_proj.weight"
    save_file({key: value for key, value in weights.items() if key != name}, path)
    assert name in refused_load(str(folder)).sentence
    save_file({**weights, name: torch.zeros(3, 3)}, path)
    assert name in refused_load(str(folder)).sentence


def test_an_encoder_decoder_is_refused_and_an_encoder_is_left_to_the_gate(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    t5 = T5ForConditionalGeneration(T5Config(d_model=8, d_ff=8, num_layers=1, vocab_size=300))
    t5.save_pretrained(tmp_path / "a")
    assert "needed a causal language model" in refused_load(str(tmp_path / "a")).sentence
    small: dict[str, Any] = {"vocab_size": 300, "num_hidden_layers": 1, "hidden_size": 8}
    bert = BertConfig(num_attention_heads=2, intermediate_size=8, **small)
    BertForMaskedLM(bert).save_pretrained(tmp_path / "a")
    assert load_model(str(tmp_path / "a")).layers == 1


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_no_window(folder: Path, window: int) -> None:
    config = MistralConfig(
        vocab_size=300, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, sliding_window=None,
    )  # fmt: skip
    peaky(MistralForCausalLM(config)).save_pretrained(folder)
    ids = torch.arange(12)[None]
    wanted = load_model(str(folder)).model(ids).logits
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sliding_window": window}))
    torch.testing.assert_close(load_model(str(folder), attention="eager").model(ids).logits, wanted)


def test_remote_code_runs_only_when_trusted(folder: Path) -> None:
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig\nclass Own(LlamaConfig):\n    model_type = 'own'\n"
    )
    path = folder / "config.json"
    own = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **own}))
    assert "trust_remote_code" in refused_load(str(folder)).sentence


def test_unknown_options_list_the_near_ones(folder: Path) -> None:
    assert "near names: bfloat16" in refused_load(str(folder), dtype="bfloat").sentence
    assert "near names: cuda" in refused_load(str(folder), device="cudaa").sentence
    assert "near names: eager" in refused_load(str(folder), attention="eagre").sentence
    if torch.cuda.device_count() == 0:
        assert "0 CUDA devices" in refused_load(str(folder), device="cuda").sentence
