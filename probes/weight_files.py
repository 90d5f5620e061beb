"""Weight files on disk: where the cache is, whether a file is whole, and which file it is."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from prompts.refusal import Refusal

_BLOCK_BYTES = 1 << 22


def cache_folder() -> Path:
    """Where HatLens keeps converted models: `HATLENS_CACHE`, or `~/.cache/hatlens`."""
    asked = os.environ.get("HATLENS_CACHE", "")
    return Path(asked).expanduser() if asked else Path.home() / ".cache" / "hatlens"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hexadecimal digits, always read anew."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def remembered_sha256(path: Path, *, anew: bool = False) -> str:
    """The SHA-256 of a file, read anew only where its path, size or time of change is new.

    `anew` reads it in any case. What was read is remembered in the cache folder; where that
    folder cannot be written, every call reads the file.
    """
    known = _known_hashes()
    key = _identity(path)
    if anew or key not in known:
        known = {**_of_other_files(known, path), key: sha256_of(path)}
        _remember(known)
    return known[key]


def hash_of_files(paths: Sequence[Path]) -> str:
    """One SHA-256 for the weight files of a model.

    For one file that of its bytes; for several that of the lines `sha256  name` in order of name,
    as `sha256sum` prints them.
    """
    if len(paths) == 1:
        return remembered_sha256(paths[0])
    lines = [f"{remembered_sha256(path)}  {path.name}\n" for path in sorted(paths)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def safetensors_bytes(path: Path) -> int:
    """How long a safetensors file must be, in bytes, by its own header.

    Refuses a file whose header cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little") if len(head) == 8 else -1
        raw = file.read(length) if 0 <= length <= size - 8 else b""
    try:
        header = json.loads(raw)
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    except (ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
        sentence = f"damaged: {size:,} bytes, and its safetensors header cannot be read"
        raise Refusal(sentence, where=str(path)) from error
    return 8 + length + max(ends, default=0)


def refuse_damaged_safetensors(path: Path) -> None:
    """Refuses a safetensors file that is shorter or longer than its header says."""
    size, needed = path.stat().st_size, safetensors_bytes(path)
    if size != needed:
        raise Refusal(f"damaged: {size:,} bytes, expected {needed:,}", where=str(path))


def shard_names(index: Path) -> list[str]:
    """The weight files that an index names, in order; none where there is no index."""
    if not index.is_file():
        return []
    try:
        names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return sorted(name for name in names if Path(name).name == name)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise Refusal(
            "damaged: the list of weight files cannot be read", where=str(index)
        ) from error


def no_disk_space(error: BaseException) -> bool:
    """Whether an error, or what caused it, is a full disk; some libraries say so only in words."""
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def write_whole(path: Path, text: str) -> None:
    """Writes a small text file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}"


def _of_other_files(known: Mapping[str, str], path: Path) -> dict[str, str]:
    """What is known of other files that still exist; the rest is out of date."""
    named = str(path.resolve())
    return {
        key: digest
        for key, digest in known.items()
        if (place := key.split("|")[0]) != named and Path(place).exists()
    }


def _known_hashes() -> dict[str, str]:
    try:
        known = json.loads((cache_folder() / "hashes.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: value for key, value in known.items() if isinstance(value, str)}


def _remember(known: Mapping[str, str]) -> None:
    try:
        write_whole(cache_folder() / "hashes.json", json.dumps(known, indent=0))
    except OSError:
        return  # A cache that cannot be written costs time, never a result.
