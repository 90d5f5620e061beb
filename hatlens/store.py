"""A run folder: finished cells, never half-written, and what they were made from.

OUT/
  manifest.json            settings, versions, model, parity gate, timing
  contexts/<set>.npz       the printed numbers of every context
  rows/<variant>/<set>/<index>.npz   one finished cell: the rows of one context
  results.json, tables/*.parquet     what was concluded (made again by `hatlens analyse`)
  report.html
"""

import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prompts.refusal import Refusal


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UMASK = _umask()


def write_whole(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        # A temporary file is its owner's alone; a result is as readable as any new file.
        Path(name).chmod(0o666 & ~_UMASK)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def plain(value: Any) -> Any:
    """The same value in types that JSON has; an undefined number is null, never NaN."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def json_text(value: Any) -> str:
    """JSON that a strict parser reads: no NaN, no infinity."""
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False)


@dataclass(frozen=True)
class RunFolder:
    """One study's folder. `task` is what identifies the study: its resolved settings."""

    path: Path

    def refuse_place(self) -> None:
        """Refuse a place where no run can stand, without writing anything."""
        parent = next(place for place in (self.path, *self.path.parents) if place.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise Refusal(
                f"needed a folder to write to, got {str(parent)!r}, which is none or is read-only",
                where=str(self.path),
            )
        if self.path.is_dir() and any(self.path.iterdir()) and not self.manifest():
            raise Refusal(
                "needed a new or empty folder, or a run of the same study, got a folder with "
                "other files; choose another --out",
                where=str(self.path),
            )

    def refuse_other_kind(self, kind: str | None) -> None:
        """Refuse the folder of another command's run; a study of attention rows has no `kind`."""
        stored = self.manifest()
        if stored and stored.get("kind") != kind:
            raise Refusal(
                "needed a new or empty folder, or a run of the same command, got a run of another "
                "command; choose another --out",
                where=str(self.path),
            )

    def open(self, task: Mapping[str, Any], *, free: Collection[str] = ()) -> None:
        """Create the folder, or take it up again if it holds the same study.

        Settings named in `free` may differ from the stored ones, which they then replace.
        """
        self.refuse_place()
        stored = self.manifest()
        if stored:
            old, new = stored.get("task", {}), plain(task)
            differ = {key for key in {**old, **new} if old.get(key) != new.get(key)}
            if differ - set(free):
                raise Refusal(
                    f"the folder holds another study (it differs in {', '.join(sorted(differ))}); "
                    "choose another --out",
                    where=str(self.path),
                )
            if differ:
                self.update_manifest(task=task)
            return
        self.update_manifest(task=task)

    def manifest(self) -> dict[str, Any]:
        """What is known of the run so far; empty before it is opened."""
        file = self.path / "manifest.json"
        if not file.is_file():
            return {}
        try:
            stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise Refusal("the manifest is damaged (not JSON)", where=str(file)) from None
        return stored

    def update_manifest(self, **entries: Any) -> None:
        self.write_text("manifest.json", json_text({**self.manifest(), **plain(entries)}))

    def write_text(self, name: str, text: str) -> None:
        write_whole(self.path / name, lambda stream: void(stream.write(text.encode("utf-8"))))

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        write_whole(
            self.path / f"{name}.npz",
            lambda stream: np.savez(stream, allow_pickle=False, **dict(arrays)),
        )

    def read_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        file = self.path / f"{name}.npz"
        try:
            with np.load(file, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except FileNotFoundError:
            sentence = "needed a stored cell, found none; the same command again makes it"
            raise Refusal(sentence, where=str(file)) from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise Refusal(
                f"a stored cell cannot be read ({error}); delete it, and the same command "
                "again makes it",
                where=str(file),
            ) from None

    def has(self, name: str) -> bool:
        return (self.path / f"{name}.npz").is_file()

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        write_whole(self.path / "tables" / f"{name}.parquet", lambda out: table.to_parquet(out))

    def write_tables(self, tables: Mapping[str, pd.DataFrame]) -> None:
        """Write the tables of a conclusion; those of an earlier one that are not among them go."""
        for name, table in tables.items():
            self.write_table(name, table.reset_index(drop=True))
        for file in (self.path / "tables").glob("*.parquet"):
            if file.stem not in tables:
                file.unlink()

    def read_tables(self) -> dict[str, pd.DataFrame]:
        files = sorted((self.path / "tables").glob("*.parquet"))
        if not files:
            raise Refusal(
                "needed the tables of a finished run, found none; `hatlens analyse` makes them",
                where=str(self.path / "tables"),
            )
        return {file.stem: read_table(file) for file in files}

    def read_results(self) -> dict[str, Any]:
        file = self.path / "results.json"
        if not file.is_file():
            raise Refusal(
                "needed a finished run (results.json), got none; run `hatlens analyse` on it, "
                "or the same command again to finish it",
                where=str(self.path),
            )
        try:
            results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise damaged(file) from None
        return results


def damaged(file: Path) -> Refusal:
    """A refusal of a file that the analysis can make again."""
    return Refusal("the file is damaged; `hatlens analyse` makes it again", where=str(file))


def read_table(file: Path) -> pd.DataFrame:
    """A stored table; a damaged one is named."""
    try:
        return pd.read_parquet(file)
    except (OSError, ValueError) as error:
        raise damaged(file) from error


def void(_: object) -> None:
    """Discard a value where only the effect is wanted."""
