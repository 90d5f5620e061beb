"""Loads a model by name: a registered one, a Hugging Face id, a local folder, or a GGUF file."""

from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from probes.packaged import Progress, packaged_folder, pull_packaged, refuse_unsound_copy
from probes.read_model import Attention, Reading, dtype_named, read_model, refuse_missing_device
from probes.registry import REGISTRY
from prompts.refusal import unknown_name


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be probed: in evaluation mode, no gradients, with what it was made from.

    `file_hash` is the SHA-256 of the weight file (of the list of hashes where there are several).
    `context_window` is in tokens, None where the configuration names none.
    """

    name: str
    model: PreTrainedModel
    tokenizer: Any
    file_hash: str
    revision: str
    dtype: str
    device: str
    source: str
    context_window: int | None
    heads: int
    kv_heads: int
    layers: int


def load_model(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    trust_remote_code: bool = False,
    attention: Attention = "fast",
) -> LoadedModel:
    """The model of this name; refuses what is not on this machine, with the command that gets it."""
    dtype_named(dtype)
    refuse_missing_device(device)
    reading = Reading(dtype, device, attention, trust_remote_code)
    if name not in REGISTRY:
        raise unknown_name("model", name, REGISTRY)
    packaged = REGISTRY[name]
    refuse_unsound_copy(packaged)
    model, tokenizer = read_model(packaged_folder(packaged), reading)
    text = model.config.get_text_config()
    return LoadedModel(
        name=name,
        model=model,
        tokenizer=tokenizer,
        file_hash=packaged.sha256,
        revision=packaged.version,
        dtype=dtype,
        device=device,
        source=packaged.requirement,
        context_window=getattr(text, "max_position_embeddings", None),
        heads=text.num_attention_heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or text.num_attention_heads,
        layers=text.num_hidden_layers,
    )


def pull_model(name: str, *, progress: Progress = lambda line: None) -> None:
    """Gets a model onto this machine and checks it."""
    if name not in REGISTRY:
        raise unknown_name("model", name, REGISTRY)
    pull_packaged(REGISTRY[name], progress)
