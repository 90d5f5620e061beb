"""Models on the Hugging Face Hub: found in the local cache, or fetched when asked for by name."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import (
    HfApi,
    constants,
    errors,
    hf_hub_download,
    scan_cache_dir,
    snapshot_download,
)
from huggingface_hub.errors import (
    CacheNotFound,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from probes.packaged import Progress
from probes.read_model import quiet
from probes.weight_files import no_disk_space
from prompts.refusal import Refusal

# Not exported by name: what the client's HTTP library raises where no answer comes at all.
_HTTP_ERROR: type[Exception] = vars(errors)["HTTPError"]
_NEEDED = (".json", ".txt", ".model", ".jinja", ".safetensors")


class HubFile(NamedTuple):
    """A file of a repository: its name and its size in bytes (0 where the Hub names none)."""

    name: str
    bytes: int


def cached_snapshot(name: str, revision: str | None) -> Path | None:
    """The folder in the Hub's own cache, None where nothing of this model is there. No network."""
    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError as error:
        # Newer Hub clients refuse a snapshot without every file; which are needed is ours to say.
        partial = getattr(error, "snapshot_path", None)
        return Path(partial) if partial else None
    except HFValidationError as error:
        raise Refusal(
            "needed a registered model, a Hugging Face id (owner/name), a folder or a GGUF file; "
            f"came {name!r}"
        ) from error


def cached_models() -> dict[str, int]:
    """The models in the Hub's cache that hold safetensors weights, with their bytes on disk."""
    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except (CacheNotFound, OSError, ValueError):
        return {}
    return {
        repository.repo_id: repository.size_on_disk
        for repository in sorted(repositories, key=lambda found: found.repo_id)
        if repository.repo_type == "model"
        and any(
            file.file_name.endswith(".safetensors")
            for version in repository.revisions
            for file in version.files
        )
    }


def pull_from_hub(
    name: str, *, revision: str | None, trust_remote_code: bool, progress: Progress
) -> Path:
    """Fetches the safetensors weights, configuration and tokenizer of a model; gives the folder.

    Python files are fetched only with `trust_remote_code`. A file that breaks off is taken up
    again by the next pull, and is no part of the model until it is whole.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES:
        raise Refusal(f"cannot fetch {name!r}: HF_HUB_OFFLINE is set, so nothing is fetched")
    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True)
        listed = [HubFile(file.rfilename, file.size or 0) for file in info.siblings or []]
        files = needed_files(name, listed, python=trust_remote_code)
        for number, file in enumerate(files, start=1):
            progress(f"fetching {number}/{len(files)} {file.name} ({file.bytes / 1e6:.1f} MB)")
            with quiet():
                hf_hub_download(name, file.name, revision=info.sha)
        wanted = [file.name for file in files]
        with quiet():
            return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    except (_HTTP_ERROR, OSError, ValueError, RuntimeError) as error:
        raise _not_fetched(name, revision, error) from error


def needed_files(name: str, listed: Sequence[HubFile], *, python: bool) -> list[HubFile]:
    """The files of a repository to fetch; refuses one without safetensors weights."""
    top = [file for file in listed if "/" not in file.name]
    endings = (*_NEEDED, ".py") if python else _NEEDED
    files = [
        file
        for file in top
        if file.name.endswith(endings) and not file.name.startswith("consolidated")
    ]
    if any(file.name.endswith(".safetensors") for file in files):
        return files
    others = [f.name for f in top if f.name.endswith((".bin", ".gguf", ".pt", ".msgpack", ".h5"))]
    found = f"it has {', '.join(others[:3])}" if others else "it has no weights at its top level"
    raise Refusal(f"model {name!r} has no safetensors weights, and only those are read; {found}")


def _not_fetched(name: str, revision: str | None, error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if no_disk_space(error):
        return Refusal(f"no disk space to fetch {name!r}", where=str(constants.HF_HUB_CACHE))
    said: dict[type[Exception], str] = {
        GatedRepoError: f"model {name!r} is gated: ask its owner, then `hf auth login`",
        RepositoryNotFoundError: f"Hugging Face has no model {name!r}, or it is private",
        RevisionNotFoundError: f"model {name!r} has no revision {revision!r}",
        HFValidationError: f"needed a Hugging Face id (owner/name), came {name!r}",
    }
    for kind, sentence in said.items():
        if isinstance(error, kind):
            return Refusal(sentence)
    text = " ".join(str(error).split())[:200]
    return Refusal(f"could not fetch {name!r} from Hugging Face (is there a network?): {text}")
