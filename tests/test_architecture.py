"""Imports run one way, torch lives in probes, and names say what they hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "prompts": {"prompts"},
    "probes": {"probes", "prompts"},
    "analysis": {"analysis"},
    "hatlens": {"hatlens", "analysis", "probes", "prompts"},
}
TORCH = {"torch", "transformers", "transformer_lens", "safetensors", "gguf"}
FILES = [file for room in MAY_IMPORT for file in sorted((ROOT / room).rglob("*.py"))]


def imported(file: Path) -> Iterator[str]:
    """Top-level names that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: absolute imports only"
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_run_one_way(file: Path) -> None:
    room = file.relative_to(ROOT).parts[0]
    names = set(imported(file))
    assert not (names & set(MAY_IMPORT)) - MAY_IMPORT[room]
    if room in ("prompts", "analysis"):
        assert not names & TORCH


def test_no_room_is_a_drawer() -> None:
    assert not [file for file in FILES if file.stem in ("utils", "common", "helpers", "core")]
