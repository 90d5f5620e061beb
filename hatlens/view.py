"""What the report is given of a study folder."""

import numpy as np
import xarray as xr

from analysis.bank import rows
from analysis.report import StudyView
from hatlens import stored_rows
from hatlens.cells import TRAINED
from hatlens.conclude import main_set
from hatlens.hypotheses import resolve
from hatlens.store import RunFolder
from probes.head_names import parse_head
from probes.rows import PARTS

SHOWN_CONTEXTS = 2
SHOWN_HYPOTHESES = ("ols", "ridge(0.1)", "gd(1)", "kernel(1)", "nearest(1)")


def study_view(folder: RunFolder, *, head: str | None = None) -> StudyView:
    """The stored results, tables and the rows of the first contexts of every model.

    `head`: the name of the head that the row picture opens with; the best row without it.
    """
    manifest = folder.manifest()
    task = manifest["task"]
    shown = min(SHOWN_CONTEXTS, manifest["contexts"]["sets"]["main"])
    variants = (TRAINED, *task["twins"])
    scores = np.stack(
        [
            np.stack(
                [
                    folder.read_arrays(f"rows/{variant}/main/{context}")["score"]
                    for context in range(shown)
                ]
            )
            for variant in variants
        ]
    )
    axes = ("variant", "context", "query", "layer", "head", "part", "example")
    main = main_set(folder)
    _, answers = stored_rows.answers(folder, TRAINED)
    arrays = main.arrays(answers)
    names = list(dict.fromkeys((*SHOWN_HYPOTHESES, *task["hypotheses"])))
    bank = np.stack([rows(one, arrays)[:shown] for one in resolve(names)])
    return StudyView(
        title=title(task),
        result={**folder.read_results(), "run": str(folder.path)},
        tables=folder.read_tables(),
        rows=xr.DataArray(
            scores,
            dims=axes,
            coords={
                "variant": list(variants),
                "part": list(PARTS),
                "context": range(shown),
                "layer": manifest["model"]["captured_layers"],
                "head": range(manifest["model"]["heads"]),
                "example": range(1, scores.shape[-1] + 1),
            },
        ),
        bank_rows=xr.DataArray(
            bank,
            dims=("hypothesis", "context", "query", "example"),
            coords={
                "hypothesis": names,
                "context": range(shown),
                "example": range(1, scores.shape[-1] + 1),
            },
        ),
        prompts=manifest["prompts"],
        opened=None if head is None else parse_head(head, stored_rows.head_grid(folder)),
    )


def title(task: dict[str, object]) -> str:
    """A study's heading: what was fed."""
    if task["data"] is not None:
        return f"{task['data']}, N = {task['examples']}"
    condition = "" if task["features"] == 1 else f", kappa = {task['condition']:g}"
    return f"P = {task['features']}, N = {task['examples']}{condition}"
