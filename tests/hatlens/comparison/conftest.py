"""Tiny models and a task, written once."""

from pathlib import Path

import pytest

from tests.hatlens.comparison.tiny_task import write_llama, write_task
from tests.hatlens.tiny_study import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_gpt2(tmp_path_factory.mktemp("models") / "gpt2"))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_llama(tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_task(tmp_path_factory.mktemp("task"))
