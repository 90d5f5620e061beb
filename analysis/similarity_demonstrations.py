"""Parts of a comparison's page on single demonstrations: near ones (KATE), and their order."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis import report_tables
from analysis.figures import BLUE, FAINT, GREEN, ORANGE, interval_band, layout
from analysis.number_text import interval_parts, interval_text, is_missing
from analysis.picture import Picture, picture
from analysis.report_tables import Table
from analysis.similarity.near_examples import levelled, residual
from analysis.similarity.records import Floats
from analysis.similarity_run_facts import figure_column, text_column

Result = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]
MATCHES = (
    ("the query's label", 1.0, BLUE, "circle"),
    ("another label", 0.0, ORANGE, "diamond"),
)
RUN_NAMES = {
    "icl": "with demonstrations (ICL)",
    "ft": "fine-tuned on them one by one (FT)",
    "full_batch": "one step on all at once (0 but for rounding)",
}


class NearPart(NamedTuple):
    """Whether near demonstrations act more; without a picture where that is not assessable."""

    sentence: str
    picture: Picture | None = None


class OrderPart(NamedTuple):
    """How much the order of the demonstrations matters, in words and in a table."""

    sentence: str
    table: Table


def near_part(result: Result, tables: Tables) -> NearPart | None:
    """The part of the page; None where it was not asked for."""
    found, table = result.get("kate"), tables.get("left_out")
    if not found:
        return None
    slopes = [interval_parts(found.get(name)) for name in ("effect", "null")]
    if table is None or any(is_missing(part) for slope in slopes for part in slope):
        return NearPart(found["sentence"])
    return NearPart(
        found["sentence"],
        picture(
            "near",
            "Effect of each demonstration by its similarity to the query",
            "Effect of leaving a demonstration out on log p(gold) by similarity, with the slope "
            "and its null; the numbers are in the table left_out",
            near_figure(table, *(tuple(map(float, one)) for one in slopes)),
        ),
    )


def near_figure(
    table: pd.DataFrame, effect: tuple[float, ...], null: tuple[float, ...]
) -> go.Figure:
    """One dot a query and demonstration, beyond their levels and the match of labels.

    table: ``left_out``. The line is the slope with its interval as a band; the grey band holds 95 %
    of the slopes under other queries' similarities.
    """
    x, y = (beyond_levels(table, name) for name in ("similarity", "effect"))
    figure = go.Figure(layout=layout(height=400))
    ends = [float(x.min()), 0.0, float(x.max())]
    for slope, colour, name in (
        (null, FAINT, "under other queries' similarities"),
        (effect, GREEN, "slope, 95 % interval"),
    ):
        bounds = [sorted((slope[1] * end, slope[2] * end)) for end in ends]
        lows, highs = zip(*bounds, strict=True)
        band = interval_band(ends, list(lows), list(highs))
        figure.add_trace(band.update(fillcolor=colour, name=name, opacity=0.35))
    figure.add_trace(
        go.Scatter(
            x=ends,
            y=[effect[0] * end for end in ends],
            mode="lines",
            name="slope",
            line={"color": GREEN, "width": 2},
            hoverinfo="skip",
        )
    )
    for name, match, colour, symbol in MATCHES:
        some = table["label_match"].to_numpy(dtype=np.float64) == match
        figure.add_trace(
            go.Scatter(
                x=x[some].tolist(),
                y=y[some].tolist(),
                mode="markers",
                name=name,
                marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.55},
                customdata=table.loc[some, ["query", "demonstration"]].to_numpy().tolist(),
                hovertemplate="query %{customdata[0]}, demonstration %{customdata[1]}: %{y:.3f}",
            )
        )
    figure.update_xaxes(title_text="similarity beyond levels and label", automargin=True)
    figure.update_yaxes(title_text="effect on log p(gold), nats", automargin=True)
    return figure


def beyond_levels(table: pd.DataFrame, name: str) -> Floats:
    """A column less the level of its query and demonstration and what the label match explains."""
    shape = (table["query"].nunique(), table["demonstration"].nunique())
    columns = (
        levelled(table[column].to_numpy(dtype=np.float64).reshape(shape))
        for column in (name, "label_match")
    )
    return residual(*columns)


def order_part(result: Result) -> OrderPart | None:
    """The part of the page; None where orders were not asked for."""
    found = result.get("order_sensitivity")
    if not found:
        return None
    columns = (
        text_column("run", "Run"),
        figure_column("sensitivity", "Order sensitivity"),
        figure_column("change", "Change from ZSL"),
        figure_column("per_change", "Sensitivity over change"),
    )
    lines = [
        {
            "run": name,
            "sensitivity": interval_text(found.get(run)),
            "change": interval_text(found.get(f"{run}_change")),
            "per_change": interval_text(found.get(f"{run}_per_change")),
        }
        for run, name in RUN_NAMES.items()
        if run in found
    ]
    return OrderPart(
        f"{found['orders']} orders of the same demonstrations, {found['queries']} queries a set: "
        "the standard deviation over orders of each next-token probability, summed over the "
        "vocabulary (2310.08540).",
        report_tables.table(
            "How much the order of the demonstrations matters, with 95 % intervals",
            columns,
            lines,
        ),
    )
