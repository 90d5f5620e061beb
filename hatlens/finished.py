"""What every finished run has, and where a run from Python lies."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Finished:
    """A run's folder, its `result` as the command prints it with ``--json``, its tidy `tables`."""

    path: Path
    result: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    @property
    def label(self) -> str:
        """The verdict on attention in a few words."""
        return str(self.result["verdict"]["label"])

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with its figures."""
        return str(self.result["verdict"]["sentence"])


def run_place(out: str | Path | None) -> Path:
    """The run folder that was asked for; without one a new temporary folder."""
    return Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="hatlens-")) / "run"
