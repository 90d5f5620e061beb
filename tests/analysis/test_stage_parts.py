"""The page's parts on the behavioural row and on prompt and layers, with what is undefined."""

from typing import Any

import numpy as np
import pandas as pd

from analysis.behavioural_part import bars, behavioural, scatter
from analysis.depth_part import along, changes, errors_by_length, explained_by_layer
from analysis.figures import BLUE

CELLS = pd.DataFrame(
    {
        "context": [0, 0, 0],
        "query": [0, 0, 1],
        "example": [0, 1, 0],
        "row": [0.5, np.nan, -0.25],
        "ols": [0.75, 0.25, -0.5],
    }
)
LINE = {"estimate": 0.5, "low": 0.25, "high": 0.75}


def test_an_unmeasured_cell_is_drawn_nowhere() -> None:
    figure = scatter(CELLS)
    assert list(figure.data[0].y) == [0.5, None, -0.25]
    # The diagonal spans the least-squares row.
    assert list(figure.data[1].x) == list(figure.data[1].y) == [-0.5, 0.75]
    one = bars(CELLS[CELLS["query"] == 0])
    assert list(one.data[0].x) == [1, 2]
    assert list(one.data[1].y) == [0.75, 0.25]


def statement(label: str) -> dict[str, Any]:
    return {"label": label, "ols": {"distance": LINE, "slope": LINE, "r2": LINE}}


def test_controls_stand_beside_the_headline() -> None:
    found = {
        **statement("equals ols"),
        "sentence": "It equals.",
        "controls": [{"kind": "y_permuted", "expected": "the same", **statement("nearest to ols")}],
        "contexts": 2, "queries": 1, "sizes": [0.25, 0.5], "linearity": LINE, "reliability": LINE,
        "total": None, "unexplored": 0.01,
        "cost": {"plain_forward_seconds": None, "by_size": []},
    }  # fmt: skip
    table = pd.DataFrame(
        {"set": ["main", "main", "y_permuted"], "hypothesis": ["ols", "pcr(1)", "ols"],
         "same_as": ["", "ols", ""], "equals": ["equals"] * 3, "distance": [0.1] * 3}
    )  # fmt: skip
    tables = {"behavioural_cells": CELLS, "behavioural_row": table}
    part = behavioural("study-1", {"behavioural_row": found}, tables)
    assert part is not None
    nearest, controls, cost = part.tables
    assert [row[0] for row in nearest.rows] == ["ols"]
    assert [row[:2] for row in controls.rows] == [
        ("none (the headline)", "equals ols"),
        ("y permuted", "nearest to ols"),
    ]
    assert ("a plain forward of the prompt", "undefined") in cost.rows
    assert behavioural("study-1", {}, {}) is None


def test_a_name_stands_where_it_is_another_one() -> None:
    assert changes(["uniform", "uniform", "ols", "ols"]) == ["uniform", "", "ols", ""]
    assert changes([]) == []


def test_lines_and_bands_leave_out_what_is_undefined() -> None:
    frame = pd.DataFrame(
        {"length": [2, 3], "predictor": "model", "error": [1.0, np.nan],
         "error_low": [0.5, np.nan], "error_high": [1.5, np.nan]}
    )  # fmt: skip
    band, model, *_ = errors_by_length(frame).data
    assert (list(band.x), list(band.y)) == ([2, 2], [1.5, 0.5])
    assert list(model.y) == [1.0, None]
    layers = pd.DataFrame(
        {"readout": "ridge", "layer": [0, 1], "explained": [-3.0, 0.5],
         "explained_low": [-4.0, 0.4], "explained_high": [-2.0, 0.6],
         "nearest": ["uniform", "ols"]}
    )  # fmt: skip
    line = explained_by_layer(layers).data[1]
    # Drawn at the figure's floor, and said as it is.
    assert list(line.y) == [-0.25, 0.5]
    assert [list(one) for one in line.customdata] == [["uniform", -3.0], ["ols", 0.5]]
    assert line.line.color == BLUE


def test_a_refused_family_is_said() -> None:
    found = {"sentence": "Along.", "measures": {}, "prefix": [], "layers": [], "refused": "a mixer"}
    part = along("study-1", {"along": found}, {})
    assert part is not None
    assert list(part.sentences) == ["Along.", "No layer was read: a mixer."]
    assert (list(part.pictures), list(part.tables)) == ([], [])
    assert along("study-1", {}, {}) is None
