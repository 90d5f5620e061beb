"""The same from Python: run a comparison, or read one."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatlens.comparison.config import build_similarity
from hatlens.comparison.same_study import with_study
from hatlens.comparison.study import analyse_comparison, is_comparison, run_similarity
from hatlens.finished import Finished, run_place
from hatlens.progress import progress, silent
from hatlens.store import RunFolder
from prompts.refusal import Refusal


@dataclass(frozen=True)
class Comparison(Finished):
    """A finished comparison: `result` is what ``hatlens similarity --json`` prints.

    `tables` are tidy: ``measures``, ``layers``, ``answers``, ``fine_tuning``, ``norms``, ``heads``.
    """


def similarity(
    model: str | None = None,
    *,
    task: str | Path | None = None,
    out: str | Path | None = None,
    show_progress: bool = False,
    **settings: Any,
) -> Comparison:
    """Compare ICL with fine-tuning; settings are those of the command, `preset` among them.

    `task`: a name, a YAML file or a data file. `out` is the run folder, where the same call takes
    up what is there; without it a new temporary folder. `study`: the folder of a finished study of
    attention rows, from which model and task are taken.
    """
    named = {"model": model, "task": None if task is None else str(task)}
    given = {key: value for key, value in named.items() if value is not None}
    config = build_similarity(with_study({**given, **settings}))
    folder = run_place(out)
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
