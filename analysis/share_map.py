"""The layer x head map of the unique OLS share, one figure a variant, all on one colour scale."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import FAINT, FONT, INK, MARK
from analysis.number_text import (
    NOT_ASSESSABLE,
    UNDEFINED,
    interval_text,
    is_missing,
    number_text,
    p_text,
)

SHARE = "unique_of_variance"
EXPLAINED = "unique_over_explained"
BEST = "best"
GREY = "rgba(140,149,159,0.3)"
VIRIDIS = (
    "#440154",
    "#482475",
    "#414487",
    "#355f8d",
    "#2a788e",
    "#21918c",
    "#22a884",
    "#44bf70",
    "#7ad151",
    "#bddf26",
    "#fde725",
)
"""Perceptually uniform, and readable in the common kinds of colour blindness and in grey."""
FIGURES = (
    "where",
    "says",
    SHARE,
    EXPLAINED,
    "share_of_reproducible",
    "inversion_index",
    "p_corrected",
    "t",
    "coefficient",
    "positive_in_folds",
)
"""What the hover of a cell holds, in the order of its `customdata`."""
HOVER = (
    "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>"
    "unique share of variance %{customdata[2]}<br>"
    "unique / explained %{customdata[3]}<br>"
    "share of reproducible %{customdata[4]}<br>"
    "inversion index %{customdata[5]}<br>"
    "corrected p %{customdata[6]}, T %{customdata[7]}<br>"
    "coefficient %{customdata[8]}, positive in folds: %{customdata[9]}"
    "<extra></extra>"
)


class Grid(NamedTuple):
    """Where each row of a model has its cell: layers downwards, heads to the right, sum last."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def columns(self) -> tuple[int | None, ...]:
        """Heads, then a gap (None), then the layer's sum (-1)."""
        return (*self.heads, None, -1)


def ols_rows(row_test: pd.DataFrame) -> pd.DataFrame:
    """The part of a row test's table that the map shows."""
    return row_test[row_test["hypothesis"] == "ols"]


def grid_of(row_test: pd.DataFrame) -> Grid:
    """The layers and heads that occur in a table; the sum over heads (-1) is no head."""
    heads = sorted({int(head) for head in row_test["head"] if int(head) >= 0})
    return Grid(tuple(sorted({int(layer) for layer in row_test["layer"]})), tuple(heads))


def share_ceiling(row_test: pd.DataFrame) -> float:
    """The share at the top of the colour scale: the largest of all variants, within .1 to 1."""
    shares = ols_rows(row_test)[SHARE].to_numpy(dtype=np.float64)
    finite = shares[np.isfinite(shares)]
    top = float(finite.max()) if finite.size else 0.0
    return float(min(1.0, max(0.1, np.ceil(top * 20) / 20)))


def share_map(
    rows: pd.DataFrame,
    *,
    grid: Grid,
    parts: Sequence[str],
    ceiling: float,
    assessable: bool = True,
) -> go.Figure:
    """Unique share (held out) of the OLS row in every row of one variant of the model.

    rows: the OLS rows of one variant. A trace's `meta` is ``[part, kind]``; the page shows the
    traces of one part at a time, "best" (the part with the largest share) first. Shares below 0
    take the lowest colour. Rows that do not see the query are hatched, rows with an undefined
    share marked with a cross; neither has a colour of the scale.
    """
    figure = go.Figure(layout=_layout(grid))
    for part in (BEST, *parts):
        cells = _cells(rows, part)
        for trace in _traces(cells, grid=grid, part=part, ceiling=ceiling, assessable=assessable):
            trace.visible = part == BEST
            figure.add_trace(trace)
    return figure


def _cells(rows: pd.DataFrame, part: str) -> dict[tuple[int, int], dict[str, Any]]:
    """The table's row of each (layer, head); for "best", the part with the largest seen share."""
    if part != BEST:
        chosen = rows[rows["part"] == part]
    else:
        # a part that is seen but has no defined share still goes before a blind one
        blind = [untested(row) for row in rows.to_dict("records")]
        ranked = rows.assign(_blind=blind).sort_values(
            ["_blind", SHARE], ascending=[True, False], na_position="last", kind="stable"
        )
        chosen = ranked.drop_duplicates(["layer", "head"])
    records = chosen.to_dict("records")
    return {(int(row["layer"]), int(row["head"])): row for row in records}


def _traces(
    cells: Mapping[tuple[int, int], Mapping[str, Any]],
    *,
    grid: Grid,
    part: str,
    ceiling: float,
    assessable: bool,
) -> list[Any]:
    values: list[list[float | None]] = []
    notes: list[list[list[str]]] = []
    places: dict[str, list[tuple[int, int]]] = {"blind": [], "undefined": [], "small_p": []}
    for y, layer in enumerate(grid.layers):
        values.append([])
        notes.append([])
        for x, head in enumerate(grid.columns):
            row = cells.get((layer, head)) if head is not None else None
            values[-1].append(_shown(row))
            notes[-1].append(_note(row, assessable=assessable))
            kind = _kind(row)
            if kind:
                places[kind].append((x, y))
    heat = go.Heatmap(
        z=values,
        customdata=notes,
        meta=[part, "share"],
        colorscale=[[i / (len(VIRIDIS) - 1), colour] for i, colour in enumerate(VIRIDIS)],
        zmin=0.0,
        zmax=ceiling,
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate=HOVER,
        hoverongaps=True,
    )
    marks = [_marks(kind, place, part) for kind, place in places.items()]
    return [heat, _grey(values, places, part), *marks]


def _grey(
    values: Sequence[Sequence[float | None]],
    places: Mapping[str, Sequence[tuple[int, int]]],
    part: str,
) -> go.Heatmap:
    """A grey ground, outside the colour scale, for rows that have no share."""
    grey = {(x, y) for kind in ("blind", "undefined") for x, y in places[kind]}
    return go.Heatmap(
        z=[
            [1 if (x, y) in grey else None for x in range(len(row))] for y, row in enumerate(values)
        ],
        colorscale=[[0, GREY], [1, GREY]],
        meta=[part, "grey"],
        showscale=False,
        xgap=1,
        ygap=1,
        hoverinfo="skip",
    )


def untested(row: Mapping[str, Any]) -> bool:
    """Whether a row was counted and not tested: it does not see the query, or not all examples."""
    return bool(row["blind"]) or bool(row.get("outside", False))


def _kind(row: Mapping[str, Any] | None) -> str:
    """Which mark a cell carries; none for an ordinary row and where there is no row."""
    if row is None:
        return ""
    if untested(row):
        return "blind"
    if is_missing(row[SHARE]):
        return "undefined"
    p, coefficient = row["p_corrected"], row["coefficient"]
    if is_missing(p) or is_missing(coefficient):
        return ""
    return "small_p" if float(p) <= 0.05 and float(coefficient) > 0 else ""


def _shown(row: Mapping[str, Any] | None) -> float | None:
    if row is None or untested(row) or is_missing(row[SHARE]):
        return None
    return float(f"{float(row[SHARE]):.4g}")


def _marks(kind: str, places: Sequence[tuple[int, int]], part: str) -> go.Scatter:
    marker = {
        "blind": {"symbol": "line-ne-open", "size": 8, "color": FAINT, "line": {"width": 1.4}},
        "undefined": {"symbol": "x-thin-open", "size": 7, "color": FAINT, "line": {"width": 1.4}},
        "small_p": {"symbol": "circle", "size": 6, "color": MARK},
    }[kind]
    if kind == "small_p":
        marker["line"] = {"width": 1.2, "color": "#000000"}
    return go.Scatter(
        x=[x for x, _ in places],
        y=[y for _, y in places],
        mode="markers",
        marker=marker,
        meta=[part, kind],
        hoverinfo="skip",
        showlegend=False,
    )


def where_text(row: Mapping[str, Any], *, part: bool = True) -> str:
    """The name of a row: ``layer 12, head 3 (KV group 1), y``; head -1 is the layer's sum."""
    head = int(row["head"])
    text = f"layer {int(row['layer'])}, " + ("sum over heads" if head < 0 else f"head {head}")
    if head >= 0 and not is_missing(row.get("kv_group")):
        text += f" (KV group {int(row['kv_group'])})"
    return f"{text}, {row['part']}" if part and row.get("part") else text


def _note(row: Mapping[str, Any] | None, *, assessable: bool) -> list[str]:
    if row is None:
        return ["no row here", *[""] * (len(FIGURES) - 1)]
    if untested(row):
        unseen = "does not see the query" if row["blind"] else "does not see every example"
        says = f"{unseen}: counted, not tested"
        return [where_text(row), says, *["not tested"] * (len(FIGURES) - 2)]
    tested = UNDEFINED if assessable else NOT_ASSESSABLE
    spans = [
        interval_text((row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")))
        for name in (SHARE, EXPLAINED, "share_of_reproducible", "inversion_index")
    ]
    return [
        where_text(row),
        html.escape(number_text(row.get("says"), missing=NOT_ASSESSABLE), quote=False),
        *spans,
        p_text(row.get("p_corrected"), missing=tested),
        number_text(row.get("t"), missing=tested),
        number_text(row.get("coefficient")),
        number_text(row.get("positive_in_folds")),
    ]


def _layout(grid: Grid) -> dict[str, Any]:
    heads, layers = grid.columns, grid.layers
    step = max(1, -(-len(layers) // 16))
    across = max(1, -(-len(heads) // 12))
    shown = [x for x, head in enumerate(heads) if head is not None and x % across == 0]
    if heads[-1] == -1 and len(heads) - 1 not in shown:
        shown.append(len(heads) - 1)
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True, "ticks": ""}
    return {
        "template": "none",
        "height": 88 + 15 * max(4, len(layers)),
        "font": {"family": FONT, "size": 12, "color": INK},
        "margin": {"l": 40, "r": 6, "t": 24, "b": 38},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 12}},
        "meta": {"layers": list(layers), "heads": list(heads)},
        "xaxis": {
            **axis,
            "title": {"text": "head (Σ: sum)", "standoff": 4},
            "range": [-0.6, len(heads) - 0.4],
            "tickvals": shown,
            "ticktext": ["Σ" if heads[x] == -1 else str(heads[x]) for x in shown],
            "tickangle": 0,
        },
        "yaxis": {
            **axis,
            "title": {"text": "layer", "standoff": 4},
            "range": [len(layers) - 0.4, -0.6],
            "tickvals": list(range(0, len(layers), step)),
            "ticktext": [str(layer) for layer in layers[::step]],
        },
    }
