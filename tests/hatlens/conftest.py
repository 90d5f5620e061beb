"""The tiny GPT-2 of all studies here, written once; nobody writes into its folder."""

from pathlib import Path

import pytest

from tests.hatlens.tiny_study import write_gpt2


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gpt2(tmp_path_factory.mktemp("model") / "tiny-gpt2")
