"""A comparison that is refused leaves nothing behind, unless a cell of it is finished."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from hatlens.store import RunFolder
from prompts.refusal import Refusal


@contextmanager
def nothing_left_behind(folder: RunFolder) -> Iterator[None]:
    """A refusal inside the block takes a new folder away again, as long as it holds no cell."""
    stood, held = folder.path.exists(), bool(folder.manifest())
    try:
        yield
    except Refusal:
        if not held and not any(folder.path.rglob("*.npz")):
            if stood:
                (folder.path / "manifest.json").unlink(missing_ok=True)
            else:
                shutil.rmtree(folder.path, ignore_errors=True)
        raise
