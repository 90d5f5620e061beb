"""The same from Python: run a study, read a run, conclude again."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from hatlens.cells import TRAINED
from hatlens.config import build_config
from hatlens.finished import Finished, run_place
from hatlens.hypotheses import Own
from hatlens.progress import progress, silent
from hatlens.store import RunFolder
from hatlens.stored_rows import rows_dataset
from hatlens.study import analyse_run, result_of, run_studies, study_folders
from prompts.refusal import Refusal


@dataclass(frozen=True)
class Run(Finished):
    """A finished study: `result` is what ``hatlens probe --json`` prints.

    `tables` are tidy: ``row_test``, ``families``, ``alone``, ``behaviour``, ``agreement``,
    ``separability``, ``answers``, and those of every further part that was measured.
    """

    def rows(self, variant: str = TRAINED) -> xr.Dataset:
        """Scores and weights of the trained model, or the scores of a twin, with named axes."""
        return rows_dataset(RunFolder(self.path), variant)


def probe(
    model: str,
    *,
    out: str | Path | None = None,
    hypotheses: Sequence[str | Own] = ("ols",),
    show_progress: bool = False,
    **settings: Any,
) -> Run:
    """Run one study on a model; settings are those of `StudyConfig` (and of the command).

    `out` is the run folder; without it a new temporary folder. `hypotheses` may hold functions
    ``ContextArrays -> (contexts, queries, examples)``: they join the table and the correction.
    """
    named = [one for one in hypotheses if isinstance(one, str)]
    own = [one for one in hypotheses if not isinstance(one, str)]
    values = {"model": model, "hypotheses": tuple(named), **settings}
    config = build_config(values)
    folder = run_place(out)
    with progress() if show_progress else nullcontext(silent) as report:
        run_studies([config], folder, report, own=own)
    return read_run(folder)


def analyse(run: str | Path, *, hypotheses: Sequence[Own] = (), show_progress: bool = False) -> Run:
    """Conclude again from the stored rows of a run, with own hypotheses added."""
    with progress() if show_progress else nullcontext(silent) as report:
        analyse_run(Path(run), report, own=hypotheses)
    return read_run(run)


def read_run(run: str | Path) -> Run:
    """A finished study from its folder; one study of a preset is its own folder."""
    path = Path(run)
    folder, *more = study_folders(path)
    if more:
        names = ", ".join(one.path.name for one in (folder, *more))
        raise Refusal(f"needed one study, got a preset of several: {names}", where=str(path))
    return Run(path, result_of(path), folder.read_tables())
