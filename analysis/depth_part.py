"""The part of a study's page on answers along the prompt and through the layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis import report_tables
from analysis.figures import BLUE, GREEN, INK, ORANGE, PURPLE, interval_band, layout
from analysis.number_text import number_text
from analysis.picture import Picture, picture
from analysis.report_part import Part, Result, Tables
from analysis.report_tables import Column, Table

SHOWN = {"model": BLUE, "ols": ORANGE, "nearest": GREEN, "mean": PURPLE}
READOUTS = {"ridge": ("ridge read-out, other contexts", BLUE), "lens": ("logit lens", ORANGE)}
MEASURES = {
    "ilwd_share": "ILWD over the squared weights (0: the same)",
    "sim_w": "SimW, cosine of implied weights (1: the same)",
    "sensitivity_cosine": "sensitivity to the query, cosine (1: the same)",
    "sensitivity_l2": "sensitivity to the query, distance (0: the same)",
    "sim_e": "SimE, cosine of errors over prefixes (1: the same)",
}


def along(anchor: str, result: Result, tables: Tables) -> Part | None:
    """Errors by prefix length, what every layer explains, measures and best steps."""
    found = result.get("along")
    if not found:
        return None
    made = [measures(found["measures"])] if found["measures"] else []
    if found["prefix"]:
        made.append(steps_by_length(found["prefix"]))
    if found["layers"]:
        made.append(layers(found["layers"]))
    sentences = [found["sentence"]]
    if found["refused"]:
        sentences.append(f"No layer was read: {found['refused']}.")
    return Part(
        "along",
        "Prompt and layers",
        "Along the prompt and through the layers",
        sentences,
        pictures=pictures(anchor, tables),
        tables=made,
    )


def pictures(anchor: str, tables: Tables) -> list[Picture]:
    """The figures that there is data for."""
    found = []
    if "prefix_agreement" in tables:
        found.append(
            picture(
                f"{anchor}-along-prefix",
                "Error after the first n examples",
                "Lines by the number of examples: mean absolute error of the model on the next "
                "example, with its interval, and of least squares, nearest and mean",
                errors_by_length(tables["prefix_agreement"]),
            )
        )
    if "layers" in tables:
        found.append(
            picture(
                f"{anchor}-along-layers",
                "What each layer says of the answer",
                "Lines by layer: the share of the model's own answer that a read-out of that "
                "layer's state explains; the name is the hypothesis that it is nearest to",
                explained_by_layer(tables["layers"]),
            )
        )
    return found


def errors_by_length(frame: pd.DataFrame) -> go.Figure:
    """Mean absolute error on the next example; the band is the model's 95 % interval."""
    figure = go.Figure(layout=layout(height=400))
    figure.add_trace(band(frame[frame["predictor"] == "model"], "length", "error"))
    for name, colour in SHOWN.items():
        one = frame[frame["predictor"] == name]
        figure.add_trace(
            go.Scatter(
                x=one["length"].tolist(),
                y=plain(one["error"]),
                mode="lines+markers",
                name=name,
                line={"color": colour, "dash": "solid" if name == "model" else "dot"},
                hovertemplate=f"after %{{x}} examples: %{{y}}<extra>{name}</extra>",
            )
        )
    figure.update_xaxes(title_text="examples before the answer", zeroline=False)
    figure.update_yaxes(
        title_text="mean absolute error, printed units", rangemode="tozero", automargin=True
    )
    return figure


def explained_by_layer(frame: pd.DataFrame) -> go.Figure:
    """Explained share of the model's answer by layer, named where the nearest name changes."""
    figure = go.Figure(layout=layout(height=400))
    figure.add_trace(band(frame[frame["readout"] == "ridge"], "layer", "explained", floor=-0.25))
    for readout, (name, colour) in READOUTS.items():
        one = frame[frame["readout"] == readout]
        if not len(one):
            continue
        names = one["nearest"].tolist()
        figure.add_trace(
            go.Scatter(
                x=one["layer"].tolist(),
                y=plain(one["explained"].clip(lower=-0.25)),
                mode="lines+markers+text" if readout == "ridge" else "lines+markers",
                text=changes(names) if readout == "ridge" else None,
                textposition="top left",
                textfont={"size": 11},
                customdata=list(zip(names, plain(one["explained"]), strict=True)),
                name=name,
                line={"color": colour, "dash": "solid" if readout == "ridge" else "dot"},
                hovertemplate="layer %{x}: %{customdata[1]}, nearest to %{customdata[0]}"
                f"<extra>{name}</extra>",
            )
        )
    figure.add_hline(y=0, line={"color": INK, "width": 1, "dash": "dash"})
    last = int(frame["layer"].max())
    figure.update_xaxes(
        title_text="after layer (0: what enters the first)",
        range=[-0.05 * last - 0.5, 1.05 * last + 0.5],
        zeroline=False,
    )
    figure.update_yaxes(
        title_text="explained share of the answer", range=[-0.3, 1.2], automargin=True
    )
    return figure


def band(frame: pd.DataFrame, place: str, value: str, *, floor: float = -np.inf) -> go.Scatter:
    """The 95 % interval of a line, where it is defined."""
    known = frame[np.isfinite(frame[f"{value}_low"]) & np.isfinite(frame[f"{value}_high"])]
    x = known[place].tolist()
    high = plain(known[f"{value}_high"].clip(lower=floor))
    low = plain(known[f"{value}_low"].clip(lower=floor))
    return interval_band(x, low, high)


def changes(names: Sequence[str]) -> list[str]:
    """Each name where it is another than the one before, else an empty text."""
    before = ["", *names]
    return [name if name != last else "" for last, name in zip(before, names, strict=False)]


def plain(values: "pd.Series[float]") -> list[float | None]:
    """Numbers with four significant digits, None where they are undefined."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def measures(found: Mapping[str, Any]) -> Table:
    """Every measure of least squares, and the hypothesis that agrees best by it."""
    return report_tables.table(
        "Agreement by weights, sensitivity and errors: least squares, and the best hypothesis",
        (
            Column("what", "Measure", report_tables.as_text, numeric=False),
            Column("ols", "Least squares", report_tables.interval_cell),
            Column("best", "Best", report_tables.as_text, numeric=False),
            Column("best_value", "Its value", report_tables.interval_cell),
        ),
        [{"what": MEASURES[name], **one} for name, one in found.items()],
    )


def steps_by_length(entries: Sequence[Mapping[str, Any]]) -> Table:
    """The number of steps whose predictions lie nearest to the answers, by prefix length."""
    return report_tables.table(
        "By the number of examples: error on the next one, and the number of gradient-descent and "
        "Newton steps nearest to the answers",
        (
            Column("length", "Examples", report_tables.number_cell),
            Column("model", "Model's error", report_tables.interval_cell),
            Column("ols", "Least squares' error", report_tables.interval_cell),
            Column("gd", "Gradient steps", report_tables.interval_cell),
            Column("newton", "Newton steps", report_tables.interval_cell),
        ),
        [
            {
                "length": one["length"],
                "model": one["error"]["model"],
                "ols": one["error"]["ols"],
                **one["best_steps"],
            }
            for one in entries
        ],
    )


def layers(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Each layer's read-outs, and what the ridge one is nearest to."""
    return report_tables.table(
        "By layer: what its state explains of the model's own answer, and the hypothesis that the "
        "ridge read-out is nearest to",
        (
            Column("layer", "Layer", report_tables.number_cell),
            Column("explained", "Explained by the read-out", report_tables.interval_cell),
            Column("nearest", "Nearest to", report_tables.as_text, numeric=False),
            Column("spd", "Squared distance / variance of y", report_tables.interval_cell),
            Column("lens_explained", "Explained by the first digit", report_tables.interval_cell),
            Column("numeral", "Probability of a numeral", report_tables.number_cell),
        ),
        [{**one, "numeral": number_text(one["numeral"]["estimate"])} for one in entries],
    )
