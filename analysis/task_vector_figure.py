"""Where one vector does the demonstrations' work: the right answer's likelihood by layer."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from analysis import report_tables
from analysis.figures import FAINT, INK, PALETTE, SYMBOLS, layout
from analysis.number_text import interval_text
from analysis.picture import Picture, picture
from analysis.report_tables import Table
from analysis.similarity_run_facts import RUNS, figure_column, text_column

WAY_NAMES = {"add": "added (ICL - ZSL)", "replace": "put in place (ICL)"}
VALUE_NAMES = {"right answers": "Right answers", "nats": "Log-probability, nats"}


class TaskVectorPart(NamedTuple):
    """What the page says of the vector; without figure and table where nothing was run."""

    sentence: str
    figure: Picture | None = None
    runs: Table | None = None


def task_vector_part(
    result: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> TaskVectorPart | None:
    """The part of the page; None where no vector was asked for."""
    found = result.get("task_vector")
    if not found:
        return None
    layers = tables.get("task_vector_layers")
    if layers is None or "runs" not in found:
        return TaskVectorPart(found["sentence"])
    shown = picture(
        "task-vector",
        "The vector at every layer, on split A",
        "Log-probability of the right answer by layer; the numbers are in task_vector_layers",
        task_vector_figure(layers, **found["on_a"]),
    )
    return TaskVectorPart(found["sentence"], shown, runs_table(found))


def runs_table(found: Mapping[str, Any]) -> Table:
    """Each run on split B, with its interval."""
    columns = (text_column("run", "Run"), figure_column("value", VALUE_NAMES[found["unit"]]))
    lines = [
        {"run": RUNS.get(run, run), "value": interval_text(value)}
        for run, value in found["runs"].items()
    ]
    caption = f"On the {found['queries']['b']} queries of split B, with 95 % intervals"
    return report_tables.table(caption, columns, lines)


def task_vector_figure(layers: pd.DataFrame, *, zsl: float, icl: float) -> go.Figure:
    """Mean log p of the right answer on split A with the vector at each layer, the chosen ringed.

    layers: the table ``task_vector_layers``. Lines across: the same of ZSL and ICL, between which
    a vector does a part of the demonstrations' work.
    """
    figure = go.Figure(layout=layout(height=360))
    for place, (way, some) in enumerate(layers.groupby("way", sort=False)):
        figure.add_trace(
            go.Scatter(
                x=some["layer"].tolist(),
                y=some["log_probability"].tolist(),
                mode="lines+markers",
                name=WAY_NAMES[str(way)],
                line={"color": PALETTE[place], "width": 2},
                marker={"symbol": SYMBOLS[place], "size": 6},
                hovertemplate="layer %{x}: %{y:.3f}",
            )
        )
    chosen = layers[layers["chosen"]]
    figure.add_trace(
        go.Scatter(
            x=chosen["layer"].tolist(),
            y=chosen["log_probability"].tolist(),
            mode="markers",
            name="chosen",
            marker={"symbol": "circle-open", "size": 14, "color": INK, "line": {"width": 2}},
            hoverinfo="skip",
        )
    )
    for name, height, dash in (("ICL", icl, "dash"), ("ZSL", zsl, "dot")):
        figure.add_hline(y=height, line={"color": FAINT, "dash": dash}, annotation_text=name)
    figure.update_xaxes(title_text="layer, from 0", zeroline=False)
    figure.update_yaxes(title_text="log p of the right answer, nats", automargin=True)
    return figure
