"""Models that are spread over devices: rows come to one place and are those of one device."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.memory import free_bytes
from probes.model_facts import input_device
from probes.models import load_model
from probes.parity import parity_gate
from probes.rows import ContextRows, context_rows
from prompts.refusal import Refusal
from tests.hatlens.tiny_study import write_gpt2
from tests.probes.tiny_models import hand_made_context, loaded, tiny_model

LLAMA = ("model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.layers.1", "model.norm")
GPT2 = ("transformer.wte", "transformer.wpe", "transformer.h.0", "transformer.h.1")
PARTS = {"llama": (*LLAMA, "lm_head"), "gpt2": (*GPT2, "transformer.ln_f", "lm_head")}


def spread(model: Any, parts: tuple[str, ...], away: tuple[str, ...], folder: Path) -> Any:
    """A copy with its parts on the CPU, those of `away` in files that are read when they run."""
    accelerate = pytest.importorskip("accelerate")
    placed = {part: "disk" if part in away else "cpu" for part in parts}
    return accelerate.dispatch_model(
        copy.deepcopy(model), placed, main_device="cpu", offload_dir=folder, force_hooks=True
    )


def same(ours: ContextRows, theirs: ContextRows, most: float) -> None:
    np.testing.assert_allclose(ours.query, theirs.query, atol=most, rtol=most)
    np.testing.assert_allclose(
        np.asarray(ours.prefix), np.asarray(theirs.prefix), atol=most, rtol=most
    )
    assert ours.answers == theirs.answers


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("away", ["a layer", "the embeddings", "all"])
def test_an_offloaded_model_gives_the_same_rows(name: str, away: str, tmp_path: Path) -> None:
    model, parts = tiny_model(name, attention="sdpa"), PARTS[name]
    # GPT-2 ties its output to its embeddings: they go together.
    ends = (parts[0], parts[-1]) if name == "gpt2" else parts[:1]
    which = {"a layer": parts[3:4], "the embeddings": ends, "all": parts}[away]
    moved = spread(model, parts, which, tmp_path)
    assert any(parameter.is_meta for parameter in moved.parameters())
    assert input_device(moved) == torch.device("cpu")
    context = hand_made_context()
    same(context_rows(loaded(moved), context), context_rows(loaded(model), context), 1e-6)
    assert parity_gate(loaded(moved), context).passed


def test_auto_on_a_machine_without_a_gpu_is_the_cpu(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU would be used")
    folder = str(write_gpt2(tmp_path / "tiny"))
    auto = load_model(folder, device="auto")
    assert auto.device == "cpu"
    ids = torch.arange(9)[None]
    with torch.inference_mode():
        torch.testing.assert_close(
            auto.model(input_ids=ids).logits, load_model(folder).model(input_ids=ids).logits
        )
    with pytest.raises(Refusal, match="0 CUDA devices"):
        load_model(folder, device="cuda")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt-oss", "qwen3-next", "gpt-neo"])
def test_a_gpu_gives_the_rows_of_the_cpu(name: str) -> None:
    model, context = tiny_model(name), hand_made_context()
    theirs = context_rows(loaded(model), context)
    moved = loaded(copy.deepcopy(model).to("cuda"))
    same(context_rows(moved, context), theirs, 1e-3)
    same(context_rows(moved, context, block=1), theirs, 1e-3)
    assert parity_gate(moved, context).passed
    assert free_bytes(torch.device("cuda")) > 0


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_layers_on_two_gpus_give_the_rows_of_the_cpu() -> None:
    accelerate = pytest.importorskip("accelerate")
    model, context = tiny_model("llama", attention="sdpa"), hand_made_context()
    placed = {
        part: int(part in ("model.layers.1", "model.norm", "lm_head"))
        for part in (*LLAMA, "lm_head")
    }
    moved = accelerate.dispatch_model(copy.deepcopy(model), placed)
    same(context_rows(loaded(moved), context), context_rows(loaded(model), context), 1e-3)
    assert parity_gate(loaded(moved), context).passed
