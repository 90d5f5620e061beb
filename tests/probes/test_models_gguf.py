"""GGUF files: whole or cut off, known or unknown, and read in the right order."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from probes.gguf_file import read_header, refuse_unusable, supported_architectures
from probes.models import load_model
from prompts.refusal import Refusal
from tests.probes.model_files import FEED_FORWARD, HEADS, HIDDEN, KV_HEADS, LAYERS, write_gguf

Matrices = dict[str, np.ndarray[Any, Any]]


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


def test_the_header_tells_the_length_of_the_whole_file(whole: Path) -> None:
    """The writer pads to 32 bytes, and the last tensor here ends on such a border."""
    header = read_header(whole)
    assert header.architecture == "llama"
    assert header.tensors == 2 + 9 * LAYERS
    assert header.bytes == whole.stat().st_size


def test_a_quantised_tensor_is_counted_in_blocks(tmp_path: Path) -> None:
    """Q4_1 keeps 32 numbers in 20 bytes: 64 numbers take 40."""
    path = tmp_path / "q.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    raw = np.zeros((1, 40), np.uint8)
    writer.add_tensor("a", raw, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    start = gguf.GGUFReader(path).data_offset
    assert read_header(path).bytes == start + 40


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_is_refused_as_damaged(whole: Path, share: float) -> None:
    raw = whole.read_bytes()
    cut = whole.with_name("cut.gguf")
    cut.write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(Refusal, match=r"damaged: [\d,]+ bytes|starts with"):
        refuse_unusable(cut)


def test_a_cut_file_is_refused_with_both_lengths(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:90_000])
    with pytest.raises(Refusal) as caught:
        load_model(str(cut))
    assert caught.value.sentence == "damaged: 90,000 bytes, expected 100,640"
    assert caught.value.where == str(cut)


@given(st.lists(st.tuples(st.integers(4, 600), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_scrambled_header_is_refused_or_read_never_a_crash(
    whole: Path, changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(whole.read_bytes())
    for place, value in changes:
        raw[place] = value
    scrambled = whole.with_name("scrambled.gguf")
    scrambled.write_bytes(raw)
    with suppress(Refusal):
        refuse_unusable(scrambled)


def test_an_unknown_architecture_is_refused_with_the_list(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    write_gguf(path, architecture="nosucharch")
    with pytest.raises(Refusal, match=r"'nosucharch' is not supported; supported ones: .*llama"):
        load_model(str(path))


def test_the_list_holds_causal_models_by_the_names_that_files_use() -> None:
    names = supported_architectures()
    assert {"llama", "gpt2", "qwen2moe", "qwen3", "gemma3"} <= set(names)
    assert not {"t5", "umt5", "general", "tokenizer", "qwen2_moe"} & set(names)


def test_another_file_is_no_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear reader")
    with pytest.raises(Refusal, match="needed a GGUF file; this one starts with b'dear'"):
        load_model(str(path))


def test_a_loaded_file_says_what_its_matrices_say(tmp_path: Path) -> None:
    """An own forward of the file's matrices, rotary pairs adjacent as llama.cpp has them."""
    path = tmp_path / "tiny.gguf"
    matrices = write_gguf(path)
    loaded = load_model(str(path))
    ids = np.array([5, 200, 17, 17, 90, 256, 3])
    with torch.no_grad():
        found = loaded.model(torch.as_tensor(ids)[None]).logits[0].double().numpy()
    assert_allclose(found, slow_logits(matrices, ids), rtol=0, atol=2e-4)
    assert (loaded.heads, loaded.kv_heads, loaded.layers) == (HEADS, KV_HEADS, LAYERS)
    assert loaded.context_window == 128
    assert not hasattr(loaded.model.config, "quantization_config")


def slow_logits(matrices: Matrices, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    m = {name: matrix.astype(float) for name, matrix in matrices.items()}
    h = m["token_embd.weight"][ids]
    for layer in range(LAYERS):
        w = {name.split(".")[2]: m[name] for name in m if name.startswith(f"blk.{layer}.")}
        h = h + slow_attention(w, normed(h, w["attn_norm"])) @ w["attn_output"].T
        z = normed(h, w["ffn_norm"])
        gate = z @ w["ffn_gate"].T
        assert gate.shape[1] == FEED_FORWARD
        h = h + (gate / (1 + np.exp(-gate)) * (z @ w["ffn_up"].T)) @ w["ffn_down"].T
    logits: np.ndarray[Any, Any] = normed(h, m["output_norm.weight"]) @ m["token_embd.weight"].T
    return logits


def slow_attention(w: Matrices, z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    size = HIDDEN // HEADS
    heads = []
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        own, shared = (
            slice(head * size, head * size + size),
            slice(group * size, group * size + size),
        )
        query = rotated(z @ w["attn_q"][own].T)
        key, value = rotated(z @ w["attn_k"][shared].T), z @ w["attn_v"][shared].T
        rows = []
        for place in range(len(z)):
            score = query[place] @ key[: place + 1].T / np.sqrt(size)
            weight = np.exp(score - score.max())
            rows.append(weight / weight.sum() @ value[: place + 1])
        heads.append(np.array(rows))
    return np.concatenate(heads, 1)


def rotated(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = np.empty_like(rows)
    for place, row in enumerate(rows):
        for pair in range(rows.shape[1] // 2):
            angle = place * 10_000.0 ** (-2 * pair / rows.shape[1])
            a, b = row[2 * pair], row[2 * pair + 1]
            out[place, 2 * pair] = a * np.cos(angle) - b * np.sin(angle)
            out[place, 2 * pair + 1] = a * np.sin(angle) + b * np.cos(angle)
    return out


def normed(rows: np.ndarray[Any, Any], gain: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    scaled: np.ndarray[Any, Any] = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * gain
    return scaled
