"""How far the answers of each run to regression lines are from y and from least squares."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.similarity.records import Floats
from analysis.similarity.resampling import draw_resamples, two_way_interval
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.numbers import RUNS, Numbers
from hatlens.comparison.stored import Stored

Result = dict[str, Any]
NAMES = (*Numbers._fields, *RUNS)


def absolute_error(config: SimilarityConfig, model: Stored) -> Result | None:
    """Mean absolute errors in printed units of y, intervals over sets and queries.

    None of labels, and where the cells are of a run that read no numbers.
    """
    if not were_read(model):
        return None
    values = {name: stacked(model, name) for name in NAMES}
    target, ols = values["target"], values["least_squares"]
    resamples = draw_resamples(*target.shape, rng=np.random.default_rng([config.seed, 10]))

    def error(one: Floats, other: Floats) -> Any:
        return two_way_interval(np.abs(one - other), rng=resamples)

    return {
        "unit": "y as printed",
        "queries": target.shape[1],
        "runs": {
            run: {
                "y": error(values[run], target),
                "least_squares": error(values[run], ols),
                "unread": int(np.isnan(values[run]).sum()),
            }
            for run in RUNS
        },
        "least_squares": error(ols, target),
        "mean": error(values["mean"], target),
        "icl_to_ft": error(values["icl"], values["ft"]),
    }


def were_read(model: Stored) -> bool:
    """Whether every set holds the numbers that its runs answered."""
    cells = model.cells.values()
    return bool(cells) and all(f"number/{name}" in cell for cell in cells for name in NAMES)


def stacked(model: Stored, name: str) -> Floats:
    """One array of numbers (set, query)."""
    return np.stack([cell[f"number/{name}"] for cell in model.cells.values()]).astype(np.float64)


def numbers_table(model: Stored) -> dict[str, pd.DataFrame]:
    """One line a set and query, as printed, by table name; empty of labels."""
    if not were_read(model):
        return {}
    columns = {name: stacked(model, name).ravel() for name in NAMES}
    sets, queries = stacked(model, "target").shape
    places: Sequence[int] = model.sets
    return {
        "numbers": pd.DataFrame(
            {
                "set": np.repeat(places, queries),
                "query": np.tile(np.arange(queries), sets),
                **columns,
            }
        )
    }
