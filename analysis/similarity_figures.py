"""Figures of a comparison of in-context learning with fine-tuning."""

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import FAINT, PALETTE, SYMBOLS, layout
from analysis.number_text import is_missing

MODEL = "trained"
DASHES = {
    "matched": "solid",
    "other demonstrations": "dash",
    "other task": "dot",
    "other query": "dashdot",
    "another order": "longdash",
    "random, uniform": "dot",
    "random, Gaussian": "dot",
}
"""What is drawn of the model, and how, alike on every figure; of a twin its matched line alone."""


def by_layer_figure(layers: pd.DataFrame) -> go.Figure:
    """One measure by layer: the model matched and mismatched, ceiling, random, every twin.

    layers: lines of the table ``layers`` of one measure and position.
    """
    figure = go.Figure(layout=layout(height=380))
    twins = 0
    for (model, seed, comparison), some in layers.groupby(
        ["model", "seed", "comparison"], sort=False, dropna=False
    ):
        if model == MODEL and comparison in DASHES:
            name, dash, width = str(comparison), DASHES[str(comparison)], 2
            place = list(DASHES).index(name)
        elif model != MODEL and comparison == "matched":
            name, dash, width = f"{model} twin, seed {int(seed)}", "solid", 1
            place = len(DASHES) + twins
            twins += 1
        else:
            continue
        colour = FAINT if str(comparison).startswith("random") else PALETTE[place % len(PALETTE)]
        figure.add_trace(
            go.Scatter(
                x=some["layer"].tolist(),
                y=[None if is_missing(value) else float(value) for value in some["value"]],
                mode="lines+markers",
                name=name,
                line={"color": colour, "dash": dash, "width": width},
                marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 6},
                hovertemplate="layer %{x}: %{y:.3f}",
            )
        )
    figure.update_xaxes(title_text="attention layer, from 0", zeroline=False)
    figure.update_yaxes(title_text="mean over queries and sets", automargin=True)
    return figure


def losses_figure(steps: pd.DataFrame) -> go.Figure:
    """Mean loss over sets of each demonstration before its step, by step, and by the base model."""
    figure = go.Figure(layout=layout(height=340))
    for place, ((model, seed), some) in enumerate(
        steps.groupby(["model", "seed"], sort=False, dropna=False)
    ):
        name = str(model) if is_missing(seed) else f"{model} twin, seed {int(seed)}"
        mean = some.groupby("step")[["loss", "base_loss"]].mean()
        for column, dash in (("loss", "solid"), ("base_loss", "dot")):
            figure.add_trace(
                go.Scatter(
                    x=mean.index.tolist(),
                    y=mean[column].tolist(),
                    mode="lines",
                    name=name if column == "loss" else f"{name}, not tuned",
                    line={"color": PALETTE[place % len(PALETTE)], "dash": dash},
                )
            )
    figure.update_xaxes(title_text="step", zeroline=False)
    figure.update_yaxes(title_text="loss, nats a token", automargin=True)
    return figure
