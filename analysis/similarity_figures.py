"""Figures of a comparison of in-context learning with fine-tuning."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import BLUE, FAINT, GREEN, INK, ORANGE, PALETTE, PURPLE, interval_band, layout
from analysis.number_text import is_missing

MODEL, MATCHED = "trained", "matched"


class Stroke(NamedTuple):
    """How one line is drawn, alike on every figure."""

    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 1.2


STROKES = {
    MATCHED: Stroke(BLUE, width=2.4),
    "other demonstrations": Stroke(ORANGE, "dash", "diamond", 2.4),
    "other query": Stroke(ORANGE, "dashdot", "x"),
    "other task": Stroke(ORANGE, "dot", "triangle-up"),
    "another order": Stroke(INK, "longdash", "square"),
    "random, uniform": Stroke(FAINT, "dot", "x"),
    "random, Gaussian": Stroke(FAINT, "dot", "circle"),
}
"""What is drawn of the model."""
TWIN_STROKES = tuple(
    Stroke(colour, dash, symbol)
    for dash, symbol in (("solid", "square"), ("dot", "cross"), ("dash", "star"))
    for colour in (GREEN, PURPLE)
)


def strokes_of(layers: pd.DataFrame) -> dict[str, Stroke]:
    """Every line of the figures by layer: comparisons of the model, and each kind of twin."""
    some = layers[layers["model"] == MODEL]["comparison"].unique()
    kinds = [kind for kind in layers["model"].unique() if kind != MODEL]
    return {
        **{name: stroke for name, stroke in STROKES.items() if name in some},
        **{
            f"{kind} twin": TWIN_STROKES[place % len(TWIN_STROKES)]
            for place, kind in enumerate(kinds)
        },
    }


def by_layer_figure(layers: pd.DataFrame) -> go.Figure:
    """One measure by layer: the model matched and mismatched, ceiling, random, every kind of twin.

    layers: lines of the table ``layers`` of one measure and position. Bands are 95 % intervals of
    the matched line and of the mismatch of the headline; of several twins of a kind the mean.
    """
    figure, strokes = go.Figure(layout=layout(height=300)), strokes_of(layers)
    own = layers[layers["model"] == MODEL]
    headline = own[own["difference"].notna()]["comparison"].unique()
    for name, some in own.groupby("comparison", sort=False):
        if name == MATCHED or name in headline:
            _add_bands(figure, some, "value", strokes[str(name)].colour)
    for name, some in own.groupby("comparison", sort=False):
        if name in strokes:
            _add_line(figure, some, "value", str(name), strokes[str(name)])
    for kind, some in layers[layers["model"] != MODEL].groupby("model", sort=False):
        matched = some[some["comparison"] == MATCHED]
        _add_line(figure, _mean_twin(matched), "value", f"{kind} twin", strokes[f"{kind} twin"])
    return _axes(figure, "mean over queries and sets")


def change_by_layer_figure(layers: pd.DataFrame) -> go.Figure:
    """Matched minus mismatched by layer with its 95 % interval, beside every kind of twin's."""
    figure, strokes = go.Figure(layout=layout(height=300)), strokes_of(layers)
    figure.add_hline(y=0, line={"color": INK, "width": 1, "dash": "dash"})
    mismatches = layers[layers["difference"].notna()]["comparison"].unique()
    known = layers[layers["comparison"].isin(mismatches)]
    for kind, some in known[known["model"] != MODEL].groupby("model", sort=False):
        _add_line(figure, _mean_twin(some), "difference", f"{kind} twin", strokes[f"{kind} twin"])
    own = known[known["model"] == MODEL]
    _add_bands(figure, own, "difference", BLUE)
    _add_line(figure, own, "difference", "the model", STROKES[MATCHED])
    return _axes(figure, "matched minus mismatched")


def _mean_twin(some: pd.DataFrame) -> pd.DataFrame:
    return some.groupby("layer", as_index=False)[["value", "difference"]].mean()


def _add_line(figure: go.Figure, some: pd.DataFrame, of: str, name: str, stroke: Stroke) -> None:
    figure.add_trace(
        go.Scatter(
            x=some["layer"].tolist(),
            y=[None if is_missing(value) else float(value) for value in some[of]],
            mode="lines+markers",
            name=name,
            line={"color": stroke.colour, "dash": stroke.dash, "width": stroke.width},
            marker={"symbol": stroke.symbol, "size": 4 + stroke.width},
            hovertemplate="layer %{x}: %{y:.3f}",
        )
    )


def _add_bands(figure: go.Figure, some: pd.DataFrame, of: str, colour: str) -> None:
    """The interval around a line, one band a stretch of layers in which it is defined."""
    known = some[some[f"{of}_low"].notna() & some[f"{of}_high"].notna()]
    for stretch in _stretches(known["layer"].tolist()):
        part = known[known["layer"].isin(stretch)]
        band = interval_band(stretch, part[f"{of}_low"].tolist(), part[f"{of}_high"].tolist())
        figure.add_trace(band.update(fillcolor=colour, opacity=0.25))


def _stretches(layers: Sequence[int]) -> list[list[int]]:
    """Runs of layers without a gap."""
    places = np.asarray(layers, dtype=np.int64)
    parts = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    return [part.tolist() for part in parts if len(part)]


def _axes(figure: go.Figure, said: str) -> go.Figure:
    figure.update_layout(showlegend=False, margin={"t": 12})
    layers = max((len(trace.x) for trace in figure.data if trace.name), default=1)
    figure.update_xaxes(
        title_text="attention layer, from 0", zeroline=False, tick0=0, dtick=max(1, layers // 6)
    )
    figure.update_yaxes(title_text=said, automargin=True, zeroline=False)
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
