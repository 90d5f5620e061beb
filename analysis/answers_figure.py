"""The figure of a study's answers against the truth, those that could not be read beside them."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import FAINT, ORANGE, PALETTE, SYMBOLS, layout, plain, safe
from analysis.number_text import number_text


def answers_scatter(answers: pd.DataFrame) -> go.Figure:
    """Each readable answer against the truth, in printed units; predictors can be switched on.

    Answers that could not be read are marks below the axis of truths, never a value.
    """
    fixed = {"context", "query", "truth", "answer_text", "answer"}
    predictors = [name for name in answers.columns if name not in fixed]
    figure = go.Figure(layout=layout(height=460))
    truths = answers["truth"].to_numpy(dtype=np.float64)
    series = [("model", "answer"), *((name, name) for name in predictors)]
    for place, (name, column) in enumerate(series):
        figure.add_trace(
            go.Scatter(
                x=plain(truths),
                y=plain(answers[column].to_numpy(dtype=np.float64)),
                mode="markers",
                name=safe(name),
                visible=True if place == 0 else "legendonly",
                marker={
                    "symbol": SYMBOLS[place % len(SYMBOLS)],
                    "color": PALETTE[place % len(PALETTE)],
                    "size": 7,
                    "opacity": 0.6,
                },
                customdata=_answer_places(answers),
                hovertemplate="context %{customdata[0]}, query %{customdata[1]}<br>truth %{x}<br>"
                + f"{safe(name)} %{{y}}<br>printed: %{{customdata[2]}}<extra></extra>",
            )
        )
    figure.add_trace(_unread(answers, truths))
    if np.isfinite(truths).any():
        ends = [float(np.nanmin(truths)), float(np.nanmax(truths))]
        line = {"color": FAINT, "dash": "dash", "width": 1}
        figure.add_trace(
            go.Scatter(x=ends, y=ends, mode="lines", name="equal", line=line, hoverinfo="skip")
        )
    figure.update_xaxes(title_text="truth, printed units", title_standoff=8, zeroline=False)
    figure.update_yaxes(title_text="answer, printed units", zeroline=False, automargin=True)
    return figure


def _unread(answers: pd.DataFrame, truths: Any) -> go.Scatter:
    unread = answers["answer"].isna().to_numpy()
    readable = answers.loc[~unread, "answer"].to_numpy(dtype=np.float64)
    floor = float(np.nanmin(np.append(readable, truths))) if len(answers) else 0.0
    return go.Scatter(
        x=plain(truths[unread]),
        y=[floor] * int(unread.sum()),
        mode="markers",
        name=f"answer not readable ({int(unread.sum())})",
        marker={"symbol": "line-ns-open", "color": ORANGE, "size": 12, "line": {"width": 2}},
        customdata=_answer_places(answers[unread]),
        hovertemplate="context %{customdata[0]}, query %{customdata[1]}<br>truth %{x}<br>"
        "not readable: %{customdata[2]}<extra></extra>",
    )


def _answer_places(answers: pd.DataFrame) -> list[list[str]]:
    texts = [safe(str(text)) for text in answers["answer_text"]]
    places = zip(answers["context"], answers["query"], texts, strict=True)
    return [[number_text(context), number_text(query), text] for context, query, text in places]
