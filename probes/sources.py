"""Where a model's files are: finds them by name and refuses what is missing, damaged or unsafe."""

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from probes import gguf_file
from probes.hub import cached_models, cached_snapshot
from probes.packaged import WEIGHTS, packaged_folder, refuse_unsound_copy
from probes.registry import BUILT_IN, REGISTRY
from probes.weight_files import hash_of_files, refuse_damaged_safetensors, shard_names
from prompts.refusal import Refusal, unknown_name

_TOKENIZERS = ("tokenizer.json", "tekken.json", "*.model", "vocab.json", "vocab.txt")
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_PATH_LIKE = re.compile(r"^[./~\\]|^[A-Za-z]:|\\|\.gguf$|/$|/.*/")


class Source(NamedTuple):
    """A model's files on this machine; `said` tells a reader where they came from."""

    folder: Path
    gguf_file: str | None
    weights: tuple[Path, ...]
    revision: str
    said: str
    file_hash: str


def find_source(name: str, *, revision: str | None = None) -> Source:
    """The files of the model of this name: registered, on disk, or in the Hugging Face cache.

    Never uses the network. Refuses what is not here with the command that gets it, and files that
    are damaged, incomplete or not safetensors.
    """
    if not isinstance(name, str) or not name.strip():
        raise Refusal(f"needed the name of a model, came {name!r}")
    if revision is not None and not isinstance(revision, str):
        raise Refusal(f"needed a revision as text, came {revision!r}", where=f"model {name!r}")
    for find in _FINDERS:
        source = find(name, revision)
        if source is not None:
            return source
    raise _missing(name, revision)


def pull_command(name: str, revision: str | None) -> str:
    """The command that gets a model onto this machine."""
    return f"hatlens models pull {name}" + (f" --revision {revision}" if revision else "")


def refuse_path_like(name: str) -> None:
    """Refuses a name that can only be a path, and leads nowhere."""
    if "://" in name:
        raise Refusal(f"needed a model's name, a folder or a GGUF file; came the address {name!r}")
    if _PATH_LIKE.search(name):
        raise Refusal(f"no file or folder {name!r}")


def is_on_disk(name: str) -> bool:
    """Whether a name is that of a file or folder."""
    try:
        return Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # Too long, no such home, or a null character.
        return False


def known_names() -> list[str]:
    """The registered models, the built-in ones and those in the Hugging Face cache."""
    return [*REGISTRY, *BUILT_IN, *cached_models()]


def model_folder(folder: Path, *, revision: str, said: str) -> Source:
    """A folder with a configuration, a tokenizer and whole safetensors weights, or a refusal."""
    where = str(folder)
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        raise Refusal("this folder holds an adapter; a whole model is needed", where=where)
    if not (folder / "config.json").is_file():
        raise Refusal("needed a model's folder; it has no config.json", where=where)
    weights = _safetensors_of(folder)
    if not any(list(folder.glob(kind)) for kind in _TOKENIZERS):
        sentence = f"no tokenizer; one of these is needed: {', '.join(_TOKENIZERS)}"
        raise Refusal(sentence, where=where)
    for path in weights:
        refuse_damaged_safetensors(path)
    return Source(folder, None, weights, revision, said, hash_of_files(weights))


def _safetensors_of(folder: Path) -> tuple[Path, ...]:
    names = shard_names(folder / f"{WEIGHTS}.index.json")
    if not names and (folder / WEIGHTS).is_file():
        names = [WEIGHTS]
    if not names:
        others = sorted(path.name for kind in _OTHER_WEIGHTS for path in folder.glob(kind))
        found = f"it has {', '.join(others[:3])}" if others else "it has no weights"
        raise Refusal(f"only safetensors weights are read; {found}", where=str(folder))
    lacking = [name for name in names if not (folder / name).is_file()]
    if lacking:
        sentence = f"{len(lacking)} of {len(names)} weight files are missing: {lacking[0]}"
        raise Refusal(sentence, where=str(folder))
    return tuple(folder / name for name in names)


def _packaged(name: str, revision: str | None) -> Source | None:
    if name not in REGISTRY:
        return None
    packaged = REGISTRY[name]
    _refuse_revision(name, revision, f"a registered model ({packaged.requirement})")
    refuse_unsound_copy(packaged)
    folder = packaged_folder(packaged)
    # The GGUF file's hash says which weights these are on every machine; that the converted copy
    # is the one made from it has just been checked.
    return Source(
        folder, None, (folder / WEIGHTS,), packaged.version, packaged.requirement, packaged.sha256
    )


def _built_in(name: str, revision: str | None) -> Source | None:
    if name not in BUILT_IN:
        return None
    built_in = BUILT_IN[name]
    _refuse_revision(name, revision, "a model that comes with HatLens")
    installed = version("hatlens")
    source = model_folder(built_in.folder, revision=installed, said=f"HatLens {installed}")
    if source.file_hash != built_in.sha256:
        sentence = f"damaged: SHA-256 {source.file_hash}, expected {built_in.sha256}"
        raise Refusal(f"{sentence}; installing HatLens anew mends it", where=str(built_in.folder))
    return source


def _on_disk(name: str, revision: str | None) -> Source | None:
    if not is_on_disk(name):
        return None
    path = Path(name).expanduser()
    _refuse_revision(name, revision, "a local file or folder")
    if path.is_dir():
        return model_folder(path, revision="", said=str(path.resolve()))
    gguf_file.refuse_unusable(path)
    digest = hash_of_files([path])
    return Source(path.parent, path.name, (path,), "", str(path.resolve()), digest)


def _on_hub(name: str, revision: str | None) -> Source | None:
    refuse_path_like(name)
    folder = cached_snapshot(name, revision)
    if folder is None:
        return None
    try:
        return model_folder(folder, revision=folder.name, said=f"https://huggingface.co/{name}")
    except Refusal as refusal:
        command = pull_command(name, revision)
        raise Refusal(
            f"{refusal.sentence}; `{command}` completes it", where=refusal.where
        ) from None


_FINDERS: tuple[Callable[[str, str | None], Source | None], ...] = (
    _packaged,
    _built_in,
    _on_disk,
    _on_hub,
)


def _refuse_revision(name: str, revision: str | None, what: str) -> None:
    if revision is not None:
        raise Refusal(f"{what} has no revisions, came {revision!r}", where=f"model {name!r}")


def _missing(name: str, revision: str | None) -> Refusal:
    command = f"`{pull_command(name, revision)}`"
    if "/" in name:
        return Refusal(f"model {name!r} is not on this machine; {command} gets it")
    sentence = unknown_name("model", name, known_names()).sentence
    return Refusal(f"{sentence}; if Hugging Face has it, {command} gets it")
