"""Writing small table files, and reading their columns."""

from pathlib import Path
from typing import Any

import pytest

from prompts.refusal import Refusal
from prompts.table import Table
from prompts.tables import read_table


def written(folder: Path, data: bytes | str, name: str = "t.csv", **options: Any) -> Table:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_table(path, **options)


def column(table: Table, name: str) -> list[float]:
    return [float(value) for value in table.numbers([name]).values[:, 0]]


def refused(table: Table, *names: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        table.numbers(names)
    return caught.value
