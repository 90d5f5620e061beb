"""The same from Python: run a comparison, or read one."""

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import analyse_comparison, is_comparison, run_similarity
from hatlens.progress import progress, silent
from hatlens.store import RunFolder
from prompts.refusal import Refusal


@dataclass(frozen=True)
class Comparison:
    """A finished comparison: `result` is what ``hatlens similarity --json`` prints.

    `tables` are tidy: ``measures``, ``layers``, ``answers``, ``fine_tuning``, ``norms``, ``heads``.
    """

    path: Path
    result: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    @property
    def label(self) -> str:
        """The verdict on attention outputs in a few words."""
        return str(self.result["verdict"]["label"])

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with its figures."""
        return str(self.result["verdict"]["sentence"])


def similarity(
    model: str,
    *,
    task: str | Path = "mr",
    out: str | Path | None = None,
    show_progress: bool = False,
    **settings: Any,
) -> Comparison:
    """Compare ICL with fine-tuning; settings are those of the command, `preset` among them.

    `task`: a name, a YAML file or a data file. `out` is the run folder, where the same call takes
    up what is there; without it a new temporary folder.
    """
    config = build_similarity({"model": model, "task": str(task), **settings})
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="hatlens-")) / "run"
    with progress() if show_progress else nullcontext(silent) as report:
        result = run_similarity(config, folder, report)
    return Comparison(folder, result, RunFolder(folder).read_tables())


def read_comparison(run: str | Path) -> Comparison:
    """A finished comparison from its folder, concluded again from its cells; no model is needed."""
    path = Path(run)
    if not is_comparison(path):
        raise Refusal("needed the folder of a comparison, came none", where=str(path))
    result = analyse_comparison(path)
    return Comparison(path, result, RunFolder(path).read_tables())
