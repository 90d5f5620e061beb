"""A cache of a file of tests, and a tiny model's folder, written once, that a test may damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probes.model_files import copy_folder, write_folder


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of ours that is empty at first, for one file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def whole_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder") / "tiny"
    write_folder(folder)
    return folder


@pytest.fixture
def folder(whole_folder: Path, tmp_path: Path) -> Path:
    return copy_folder(whole_folder, tmp_path / "tiny")
