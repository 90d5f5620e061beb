"""Plotly figures of one study: where the least-squares row shows, and how well the model answers.

Every figure is drawn in the light palette below; the page swaps these colours in dark mode. The
pairs (blue, orange, green) are told apart in the common kinds of colour blindness and by shape.
"""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.number_text import interval_parts, interval_text, is_missing, share_text

INK, FAINT, MARK = "#1f2328", "#8c959f", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE = "#0969da", "#bc4c00", "#1a7f37", "#8250df"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, INK, FAINT)
SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "x")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CONTAINS_SHARE = 0.10
"""The unique share from which a row "contains an S^-1 component"."""


class Dots(NamedTuple):
    """One group of dots with intervals, one for each label of the figure; NaN draws nothing."""

    name: str
    estimates: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


def dot_intervals(
    labels: Sequence[str],
    groups: Sequence[Dots],
    *,
    axis: str,
    reference: float | None = None,
) -> go.Figure:
    """Estimates with their 95 % intervals, one line a label, groups told apart by colour and shape.

    A label whose every estimate is NaN keeps its line and says "undefined". `reference` draws a
    dashed line, which `axis` explains.
    """
    wrapped = [_wrapped(label) for label in labels]
    line = max((label.count("<br>") for label in wrapped), default=0)
    pitch = max(18 + 14 * len(groups), 12 + 17 * (line + 1))
    figure = go.Figure(layout=layout(height=100 + pitch * len(labels)))
    for place, group in enumerate(groups):
        offset = 0.0 if len(groups) == 1 else 0.17 * (2 * place / (len(groups) - 1) - 1)
        figure.add_trace(_dots(labels, group, place=place, offset=offset))
    empty = [all(is_missing(group.estimates[i]) for group in groups) for i in range(len(labels))]
    ticks = [
        label + (" (undefined)" if none else "") for label, none in zip(wrapped, empty, strict=True)
    ]
    figure.update_yaxes(
        tickvals=list(range(len(labels))),
        ticktext=ticks,
        range=[len(labels) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    figure.update_xaxes(title_text=axis, automargin=True, zeroline=False)
    if reference is not None:
        figure.add_vline(x=reference, line={"color": INK, "width": 1, "dash": "dash"})
    figure.update_layout(showlegend=len(groups) > 1)
    return figure


def share_intervals(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> go.Figure:
    """The row test's best OLS row of the trained model and each twin: effects with intervals.

    rows: pairs of a label and an entry of ``row_test`` in the result.
    """
    measures = (
        ("unique share of variance", "unique_of_variance"),
        ("unique / explained", "unique_over_explained"),
        ("share of the reproducible part", "share_of_reproducible"),
    )
    groups = []
    for name, key in measures:
        parts = [_numbers(entry.get(key)) for _, entry in rows]
        groups.append(Dots(name, *zip(*parts, strict=True)) if parts else Dots(name, (), (), ()))
    return dot_intervals(
        [label for label, _ in rows],
        groups,
        axis=f"share (dashed: {CONTAINS_SHARE:.2f})",
        reference=CONTAINS_SHARE,
    )


def error_intervals(behaviour: pd.DataFrame) -> go.Figure:
    """Held-out error of the model and of each simple predictor on the same contexts."""
    return _table_dots(behaviour, "predictor", "error", axis="mean absolute error, printed units")


def difference_intervals(behaviour: pd.DataFrame) -> go.Figure:
    """Paired difference, model minus predictor: left of 0 the model is better."""
    rivals = behaviour[behaviour["predictor"] != "model"]
    return _table_dots(
        rivals,
        "predictor",
        "difference",
        axis="model minus predictor, printed units (dashed: equal)",
        reference=0.0,
    )


def agreement_intervals(agreement: pd.DataFrame, *, most: int = 15) -> go.Figure:
    """Squared distance between the model's answers and each hypothesis', nearest first."""
    nearest = agreement.sort_values("spd", na_position="last").head(most)
    return _table_dots(nearest, "hypothesis", "spd", axis="squared distance / variance of y")


def interval_band(
    x: Sequence[Any], low: Sequence[float | None], high: Sequence[float | None]
) -> go.Scatter:
    """The 95 % interval around a line, as a band."""
    return go.Scatter(
        x=[*x, *x[::-1]],
        y=[*high, *low[::-1]],
        mode="lines",
        fill="toself",
        line={"width": 0},
        fillcolor=FAINT,
        opacity=0.3,
        hoverinfo="skip",
        name="95 % interval",
    )


def calibration(curve: pd.DataFrame) -> go.Figure:
    """How often the truth lies below each quantile, with intervals; the diagonal is calibrated."""
    figure = go.Figure(layout=layout(height=380))
    low, high = curve["share_low"].tolist(), curve["share_high"].tolist()
    if not any(map(is_missing, (*low, *high))):
        figure.add_trace(interval_band(curve["level"].tolist(), low, high))
    points = curve["level"].tolist(), curve["share"].tolist()
    figure.add_trace(
        go.Scatter(
            x=points[0],
            y=points[1],
            mode="lines+markers",
            name="model",
            line={"color": BLUE},
            customdata=[[share_text(of) for of in line] for line in zip(*points, strict=True)],
            hovertemplate="below the %{customdata[0]} quantile: %{customdata[1]}",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[0, 1],
            y=[0, 1],
            mode="lines",
            name="calibrated",
            hoverinfo="skip",
            line={"color": INK, "dash": "dash", "width": 1},
        )
    )
    figure.update_xaxes(title_text="quantile of the answer's distribution", range=[0, 1])
    figure.update_yaxes(title_text="share of truths below it", range=[0, 1], automargin=True)
    return figure


def _table_dots(table: pd.DataFrame, label: str, measure: str, **options: Any) -> go.Figure:
    columns = [table[name].tolist() for name in (measure, f"{measure}_low", f"{measure}_high")]
    return dot_intervals([str(v) for v in table[label]], [Dots(measure, *columns)], **options)


def _dots(labels: Sequence[str], group: Dots, *, place: int, offset: float) -> go.Scatter:
    parts = list(zip(group.estimates, group.lows, group.highs, strict=True))
    colour = PALETTE[place % len(PALETTE)]
    return go.Scatter(
        x=plain(group.estimates),
        y=[i + offset for i in range(len(labels))],
        mode="markers",
        name=safe(group.name),
        marker={"size": 9, "color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [_reach(high, estimate) for estimate, _, high in parts],
            "arrayminus": [_reach(estimate, low) for estimate, low, _ in parts],
            "color": colour,
            "thickness": 1.6,
            "width": 4,
        },
        text=[
            f"{safe(label)}: {interval_text(part)}"
            for label, part in zip(labels, parts, strict=True)
        ],
        hovertemplate="%{text}<extra>" + safe(group.name) + "</extra>",
    )


def _numbers(interval: Any) -> tuple[float, float, float]:
    estimate, low, high = (
        np.nan if is_missing(part) else float(part) for part in interval_parts(interval)
    )
    return estimate, low, high


def _reach(far: Any, near: Any) -> float | None:
    return None if is_missing(far) or is_missing(near) else max(0.0, float(far) - float(near))


def plain(values: Any) -> list[float | None]:
    """A list that JSON holds as written: null for NaN, six significant digits."""
    return [None if is_missing(value) else float(f"{float(value):.6g}") for value in values]


def safe(text: str) -> str:
    """Plotly reads labels as a small HTML, so that a name may not bring its own tags."""
    return html.escape(str(text), quote=False)


def _wrapped(label: str) -> str:
    """A label in lines short enough to leave a phone's width to the figure."""
    return "<br>".join(
        safe(line) for line in textwrap.wrap(label, 18, break_long_words=False)
    ) or safe(label)


def layout(*, height: int) -> dict[str, Any]:
    """What every figure of the page shares: font, colours, margins, legend."""
    return {
        "template": "none",
        "height": height,
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 10, "r": 16, "t": 34, "b": 52, "pad": 4},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 13}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
