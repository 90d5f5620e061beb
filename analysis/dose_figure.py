"""Likeness to ICL by how far fine-tuning moved outputs, one line a way of descent."""

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import PALETTE, SYMBOLS, layout
from analysis.picture import Picture, picture

NAMES = {"gd": "plain descent", "lcgd": "layer-causal descent"}


def dose_figure(table: pd.DataFrame) -> go.Figure:
    """Likeness by relative output change, both means over layers and sets, one line a method.

    table: lines of the table ``dose`` of one measure; the reader compares the lines at equal
    change, since likeness rises with the size of an update alone.
    """
    figure = go.Figure(layout=layout(height=380))
    for place, (method, some) in enumerate(table.groupby("method", sort=False)):
        known = some.dropna(subset=["relative_norm", "likeness"])
        line = known.groupby("dose")[["relative_norm", "likeness"]].mean()
        line = line.sort_values("relative_norm")
        figure.add_trace(
            go.Scatter(
                x=line["relative_norm"].tolist(),
                y=line["likeness"].tolist(),
                mode="lines+markers",
                name=NAMES.get(str(method), str(method)),
                line={"color": PALETTE[place], "width": 2},
                marker={"symbol": SYMBOLS[place], "size": 7},
                hovertemplate="change %{x:.3g}: %{y:.3f}",
            )
        )
    figure.update_xaxes(
        type="log", title_text="output change by fine-tuning over the output", zeroline=False
    )
    figure.update_yaxes(title_text="likeness to ICL, mean over layers", automargin=True)
    return figure


def dose_pictures(table: pd.DataFrame | None) -> list[Picture]:
    """One figure a measure of the table ``dose``; none where doses were not run."""
    if table is None:
        return []
    return [
        picture(
            f"dose-{place}",
            f"{key} by dose",
            f"{key} of plain and layer-causal descent by output change; the numbers are in the "
            "table dose",
            dose_figure(some),
        )
        for place, (key, some) in enumerate(table.groupby("measure", sort=False))
    ]
