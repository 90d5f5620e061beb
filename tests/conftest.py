"""What tests of several folders need: caches of their own, and quick collection of garbage."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants


@pytest.fixture
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of ours and of Hugging Face's that are empty, for one test."""
    monkeypatch.setenv("HATLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """What is alive before the test is neither collected nor counted, which takes seconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
