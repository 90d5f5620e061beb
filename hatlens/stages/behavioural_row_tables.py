"""What a study says of the behavioural row: entries of the result, tables, a sentence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.bank import hypothesis_named, rows
from analysis.behavioural_row import BehaviouralRow
from analysis.design import ContextArrays, Floats
from analysis.number_text import share_text
from analysis.row_result import RowTest
from analysis.row_runs import RowRuns
from hatlens.sets import ORDER_PERMUTED, SURFACE, Y_PERMUTED
from hatlens.tables import interval_columns

EXPECTED = {
    Y_PERMUTED: "the same row, since least-squares weights do not depend on y",
    ORDER_PERMUTED: "the same row",
    SURFACE: "the same row, printed by another codec",
}
"""Each control and what its behavioural row is if the model answers by least squares."""

INTERVALS = ("distance", "behind_nearest", "slope", "r2", "share_of_reliability")
OLS = "ols"


def statement(found: BehaviouralRow) -> dict[str, Any]:
    """The label with its figures; `ols` holds those of the least-squares row."""
    line = next((one for one in found.lines if one.hypothesis == OLS), None)
    shown = ("distance", "slope", "r2", "share_of_reliability", "equals")
    return {
        "label": found.label,
        "assessable": found.assessable,
        "nearest": found.nearest,
        "inseparable": found.inseparable,
        "ols": None if line is None else {name: getattr(line, name) for name in shown},
        "reliability": found.reliability,
        "linearity": found.linearity,
        "linear": found.linear,
        "total": found.total,
        "missing": found.missing,
        "asked": found.asked,
        "units": found.units,
    }


def row_test_entry(test: RowTest | str) -> dict[str, Any]:
    """What the row test says of the first hypothesis on this row; or why it says nothing."""
    if isinstance(test, str):
        return {"says": "not assessable", "not_assessable": test}
    best = test.chosen[0]
    seen = best.row >= 0
    return {
        "hypothesis": best.hypothesis,
        "says": best.says,
        "unique_over_explained": best.unique_over_explained,
        "unique_of_variance": best.unique_of_variance,
        "inversion_index": best.inversion_index,
        "t": float(test.t[best.row, 0]) if seen else None,
        "p_corrected": float(test.p_corrected[best.row, 0]) if seen else None,
        "not_assessable": "",
        "preview": test.preview,
    }


def cost(seconds: Floats, plain: Floats, sizes: Floats) -> dict[str, Any]:
    """What one size in one order costs, median over contexts and orders.

    forwards: its runs over one plain forward of the prompt, readings apart.
    """
    forward, reading = (np.median(seconds[..., part], axis=(0, 2)) for part in (0, 1))
    one = float(np.median(plain))
    return {
        "plain_forward_seconds": one,
        "by_size": [
            {
                "size": float(size),
                "forward_seconds": float(forward[d]),
                "reading_seconds": float(reading[d]),
                "forwards": float(forward[d]) / one if one > 0 else None,
            }
            for d, size in enumerate(sizes)
        ],
        "seconds": float(seconds.sum()),
    }


def sentence(result: Mapping[str, Any], statement: str) -> str:
    """The statement, what the row test says of the row, moved pairs, controls and cost."""
    test, spent = result["row_test"], result["cost"]["by_size"]
    parts = [statement]
    if test["not_assessable"]:
        parts.append(f"The row test is not assessable on it: {test['not_assessable']}.")
    else:
        parts.append(f"The row test on it says: {test['says']}.")
    if result["shifted"]:
        parts.append(
            f"In {share_text(result['shifted'])} of the changes the pair was moved inward to stay "
            "within the printed range."
        )
    if result["controls"]:
        said = "; ".join(
            f"{one['kind'].replace('_', ' ')}: {one['label']}" for one in result["controls"]
        )
        parts.append(f"Under the controls: {said}.")
    if spent[0]["forwards"] is not None:
        ratios = " and ".join(f"{one['forwards']:.3g}" for one in spent)
        parts.append(
            f"Each size took {ratios} plain forwards of a context's prompt in one order, readings "
            "apart."
        )
    return " ".join(parts)


def agreement_table(found: Mapping[str, BehaviouralRow]) -> pd.DataFrame:
    """One line a set and hypothesis, nearest first."""
    return pd.DataFrame(
        [
            {
                "set": name,
                "hypothesis": line.hypothesis,
                **{
                    column: value
                    for key in INTERVALS
                    for column, value in interval_columns(key, getattr(line, key)).items()
                },
                "separable": line.separable,
                "same_as": line.same_as,
                "equals": line.equals,
            }
            for name, one in found.items()
            for line in one.lines
        ]
    )


def cells_table(runs: RowRuns, contexts: ContextArrays) -> pd.DataFrame:
    """One line a context, query and example: the row in several runs, and that of least squares."""
    shape = runs.values.shape[2:]
    context, query, example = (axis.ravel() for axis in np.indices(shape))
    values = runs.values
    columns = {
        "row": runs.mean,
        "smaller_size": values[0].mean(axis=0),
        "larger_size": values[-1].mean(axis=0),
        "main_order": values[:, 0].mean(axis=0),
        "other_order": values[:, -1].mean(axis=0),
        OLS: rows(hypothesis_named(OLS), contexts),
    }
    return pd.DataFrame(
        {
            "context": context,
            "query": query,
            "example": example,
            **{name: np.asarray(one).ravel() for name, one in columns.items()},
        }
    )
