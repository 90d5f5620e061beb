"""Caches of a test's own."""

from pathlib import Path

import pytest
from huggingface_hub import constants


@pytest.fixture
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of ours and of Hugging Face's that are empty, for one test."""
    monkeypatch.setenv("HATLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
