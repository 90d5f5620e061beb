"""The dose curves as drawn: one line a method, in rising order of change."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.dose_figure import dose_figure, dose_pictures


def table(measure: str = "SimAOU (orthogonal)") -> pd.DataFrame:
    """Two layers whose changes are 1/2 and 3/2 of the dose, and likeness a tenth of it."""
    return pd.DataFrame(
        [
            {
                "measure": measure,
                "method": method,
                "dose": dose,
                "set": 0,
                "layer": layer,
                "relative_norm": dose * (0.5 + layer),
                "likeness": np.nan if (method, dose) == ("lcgd", 4.0) else dose / 10,
            }
            for method in ("gd", "lcgd")
            for dose in (4.0, 1.0, 2.0)
            for layer in range(2)
        ]
    )


def test_each_method_is_a_line_of_means() -> None:
    plain, causal = dose_figure(table()).data
    assert (plain.name, causal.name) == ("plain descent", "layer-causal descent")
    assert list(plain.x) == pytest.approx([1, 2, 4])
    assert list(plain.y) == pytest.approx([0.1, 0.2, 0.4])
    # A dose that diverged has no point.
    assert list(causal.x) == pytest.approx([1, 2])


def test_the_change_is_on_a_logarithmic_axis() -> None:
    assert dose_figure(table()).layout.xaxis.type == "log"


def test_there_is_one_picture_a_measure_and_none_without_doses() -> None:
    both = pd.concat([table(), table("SimAM-delta (centred)")])
    found = dose_pictures(both)
    assert [one.title for one in found] == [
        "SimAOU (orthogonal) by dose",
        "SimAM-delta (centred) by dose",
    ]
    assert all(json.loads(one.spec)["data"] for one in found)
    assert dose_pictures(None) == []
