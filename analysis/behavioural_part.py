"""The part of a study's page that shows the behavioural row beside the least-squares row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis import report_tables
from analysis.figures import BLUE, FAINT, INK, ORANGE, layout
from analysis.number_text import interval_text, number_text, seconds_text
from analysis.picture import picture
from analysis.report_part import Part, Result, Tables
from analysis.report_tables import Column, Table

SHOWN = 12
FIGURES = (
    Column("slope", "Calibration slope", report_tables.interval_cell),
    Column("r2", "R2", report_tables.interval_cell),
    Column("share_of_reliability", "R2 / reliability", report_tables.interval_cell),
    Column("equals", "Equal", report_tables.as_text, numeric=False),
)
DISTANCE = Column("distance", "Squared distance / squared length", report_tables.interval_cell)


def behavioural(anchor: str, result: Result, tables: Tables) -> Part | None:
    """The measured row against least squares, the hypotheses' rows, controls and cost."""
    found = result.get("behavioural_row")
    if not found:
        return None
    cells = tables["behavioural_cells"]
    main = tables["behavioural_row"]
    made = [nearest(main[main["set"] == "main"])]
    if found["controls"]:
        made.append(controls(found))
    pictures = [
        picture(
            f"{anchor}-behavioural-scatter",
            "Behavioural row against the least-squares row",
            "Each dot is one example of one query: the change of the mean answer with its y, "
            "against its least-squares weight; on the diagonal where they are equal",
            scatter(cells),
        ),
        picture(
            f"{anchor}-behavioural-bars",
            "One query: each example's weight",
            "Bars by example: the measured behavioural row and the least-squares row of the first "
            "query of the first context",
            bars(cells[(cells["context"] == 0) & (cells["query"] == 0)]),
        ),
    ]
    return Part(
        "behavioural",
        "Behavioural row",
        "The behavioural row: how the answer moves with each example's y",
        [found["sentence"]],
        pictures=pictures,
        tables=[*made, cost(found)],
    )


def nearest(main: pd.DataFrame) -> Table:
    """The nearest hypotheses, names for the same row left out."""
    lines = main[main["same_as"] == ""].head(SHOWN)
    return report_tables.table(
        f"The {len(lines)} nearest hypotheses' rows; equal: slope within 0.8 to 1.25 and at least "
        "0.8 of the reliability, by whole intervals",
        (report_tables.HYPOTHESIS, DISTANCE, *FIGURES),
        [report_tables.joined(record) for record in lines.to_dict("records")],
    )


def controls(found: Mapping[str, Any]) -> Table:
    """The label and the least-squares figures of the main contexts and of every control."""
    lines = [
        {"control": name, "label": one["label"], "expected": expected, **(one["ols"] or {})}
        for name, expected, one in (
            ("none (the headline)", "", found),
            *((c["kind"].replace("_", " "), c["expected"], c) for c in found["controls"]),
        )
    ]
    return report_tables.table(
        "The behavioural row under each control, beside the least-squares row of the control's "
        "own examples (one size and one order each, so that no label says equals)",
        (
            Column("control", "Control", report_tables.as_text, numeric=False),
            Column("label", "Label", report_tables.as_text, numeric=False),
            DISTANCE,
            *FIGURES[:2],
            Column("expected", "If it is least squares", report_tables.as_text, numeric=False),
        ),
        lines,
        missing="",
    )


def cost(found: Mapping[str, Any]) -> Table:
    """What the rows rest on, and what they cost."""
    spent = found["cost"]
    lines = [
        ("contexts, queries", f"{found['contexts']}, {found['queries']}"),
        ("sizes of the change, printed units", listed(found["sizes"])),
        ("relative difference of the rows of the two sizes", interval_text(found["linearity"])),
        ("reliability over sizes and orders", interval_text(found["reliability"])),
        ("sum of a row over the examples", interval_text(found["total"])),
        ("largest mass left out of an answer", number_text(found["unexplored"])),
        ("a plain forward of the prompt", seconds_text(spent["plain_forward_seconds"])),
        *(
            (
                f"size {number_text(one['size'])}: forwards, readings of a context",
                f"{seconds_text(one['forward_seconds'])} ({number_text(one['forwards'])} plain "
                f"forwards), {seconds_text(one['reading_seconds'])}",
            )
            for one in spent["by_size"]
        ),
    ]
    return report_tables.table(
        "What the behavioural row rests on, and what one size in one order cost",
        (
            Column("what", "Measure", report_tables.as_text, numeric=False),
            Column("value", "Value", report_tables.as_text),
        ),
        [{"what": what, "value": value} for what, value in lines],
    )


def listed(values: Sequence[Any]) -> str:
    return ", ".join(number_text(value) for value in values)


def scatter(cells: pd.DataFrame) -> go.Figure:
    """Every example of every query: measured against least squares, with the diagonal."""
    figure = go.Figure(layout=layout(height=420))
    places = cells[["context", "query", "example"]].to_numpy().tolist()
    figure.add_trace(
        go.Scatter(
            x=rounded(cells["ols"]),
            y=rounded(cells["row"]),
            mode="markers",
            name="measured",
            marker={"color": BLUE, "size": 5, "opacity": 0.5},
            customdata=places,
            hovertemplate="context %{customdata[0]}, query %{customdata[1]}, example "
            "%{customdata[2]}<br>least squares %{x}<br>measured %{y}<extra></extra>",
        )
    )
    known = cells["ols"].dropna()
    ends = [float(known.min()), float(known.max())] if len(known) else [0.0, 1.0]
    figure.add_trace(
        go.Scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="equal",
            hoverinfo="skip",
            line={"color": INK, "dash": "dash", "width": 1},
        )
    )
    figure.update_xaxes(title_text="least-squares row", zerolinecolor=FAINT)
    figure.update_yaxes(
        title_text="behavioural row, change of answer / of y", zerolinecolor=FAINT, automargin=True
    )
    return figure


def bars(cells: pd.DataFrame) -> go.Figure:
    """One query's rows, example by example."""
    figure = go.Figure(layout=layout(height=420))
    for column, name, colour in (("row", "measured", BLUE), ("ols", "least squares", ORANGE)):
        figure.add_trace(
            go.Bar(
                x=(cells["example"] + 1).tolist(),
                y=rounded(cells[column]),
                name=name,
                marker={"color": colour},
                hovertemplate=f"example %{{x}}: %{{y}}<extra>{name}</extra>",
            )
        )
    figure.update_xaxes(title_text="example, as printed")
    figure.update_yaxes(
        title_text="weight, change of answer / of y", automargin=True, zerolinecolor=FAINT
    )
    return figure


def rounded(values: "pd.Series[float]") -> list[float | None]:
    """Numbers with four significant digits, None where they are undefined."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
