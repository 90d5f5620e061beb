"""The parts of a study's page on causes: heads changed, and what heads write into the answers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis import figures, report_tables
from analysis.figures import BLUE, FAINT, Dots, layout
from analysis.number_text import number_text
from analysis.picture import Picture, picture
from analysis.report_part import Part, Result, Tables
from analysis.report_tables import Column, Table

KINDS = {
    "mean": "set to their mean over contexts",
    "zero": "set to zero",
    "patch": "set to their values in another context",
}
DRAWN_POINTS = 600


def cause(anchor: str, result: Result, tables: Tables) -> Part | None:
    """The error with heads changed, the named ones beside every random set."""
    found = result.get("cause")
    if not found:
        return None
    table = tables.get("cause", pd.DataFrame())
    pictures, listed = [], []
    if len(table):
        pictures.append(
            picture(
                f"{anchor}-cause-errors",
                "Change of the error: the heads, and every random set",
                "Dots: change of the mean absolute error with the heads changed, with intervals, "
                "and with each set of random heads of the same layers, for each way of changing",
                error_changes(table),
            )
        )
        listed.append(effects(found, table))
    return Part(
        "cause", "Causes", "Whether heads cause the answers", [found["sentence"]], pictures, listed
    )


def error_changes(table: pd.DataFrame) -> go.Figure:
    """The named heads' change of the error with its interval, over a dot for each random set."""
    named = table[table["draw"] == "named"]
    kinds = named["kind"].tolist()
    columns = [named[name].tolist() for name in ("change", "change_low", "change_high")]
    figure = figures.dot_intervals(
        [KINDS.get(kind, kind) for kind in kinds],
        [Dots("the heads", *columns)],
        axis="change of the absolute error, printed units (dashed: none)",
        reference=0.0,
    )
    random = table[table["draw"] != "named"]
    figure.add_trace(
        go.Scatter(
            x=[float(f"{value:.6g}") for value in random["change"]],
            y=[kinds.index(kind) + 0.25 for kind in random["kind"]],
            mode="markers",
            name="random heads, a dot a set",
            marker={"color": FAINT, "size": 7, "opacity": 0.7},
            text=random["heads"].tolist(),
            hovertemplate="%{x} (%{text})<extra></extra>",
        )
    )
    figure.update_layout(showlegend=True)
    return figure


def effects(found: Mapping[str, Any], table: pd.DataFrame) -> Table:
    """One line a way of changing heads, in printed units."""
    random = table[table["draw"] != "named"].groupby("kind")["change"].mean()
    lines = []
    for one in found["effects"]:
        line = table[(table["kind"] == one["kind"]) & (table["draw"] == "named")].iloc[0]
        lines.append(
            {
                "kind": KINDS.get(one["kind"], one["kind"]),
                "change": (line["change"], line["change_low"], line["change_high"]),
                "random": random.get(one["kind"], np.nan),
                "as_much": f"{one['as_much']} of {found['sets']}",
                "lost": f"{one['lost']} (random: {number_text(one['lost_random'])})",
                "matters": number_text(one["matters"]),
            }
        )
    columns = (
        Column("kind", "The heads are", report_tables.as_text, numeric=False),
        Column("change", "Change of the error", report_tables.interval_cell),
        Column("random", "Random sets, mean", _number),
        Column("as_much", "Random sets that do as much", report_tables.as_text),
        Column("lost", "Answers no longer read", report_tables.as_text),
        Column("matters", "Matters", report_tables.as_text),
    )
    caption = (
        f"Change of the mean absolute error (printed units of y) in {found['contexts']} contexts, "
        "heads changed at the answer position only; the rule for \u201cmatters\u201d also asks "
        "that the difference from the random sets lies above 0"
    )
    return report_tables.table(caption, columns, lines)


def contributions(anchor: str, result: Result, tables: Tables) -> Part | None:
    """What heads write about each example, beside the hypothesis' row."""
    found = result.get("contributions")
    if not found:
        return None
    drawn = tables.get("contribution_rows", pd.DataFrame())
    pictures = scatters(anchor, found, drawn) if len(drawn) else []
    listed = [heads(found)] if found.get("heads") else []
    heading = "What heads write into the answers"
    return Part("contributions", "Contributions", heading, [found["sentence"]], pictures, listed)


def scatters(anchor: str, found: Mapping[str, Any], drawn: pd.DataFrame) -> list[Picture]:
    """One picture a shown head: its contributions against the row, an even choice of points."""
    pictures, own = [], found["row_test"]["hypothesis"]
    places = ["layer", "head", "part"]
    for place, (where, rows) in enumerate(drawn.groupby(places, sort=False)):
        name = f"L{where[0]}H{where[1]} ({where[2]})"
        shown = rows.iloc[:: max(1, -(-len(rows) // DRAWN_POINTS))]
        pictures.append(
            picture(
                f"{anchor}-contributions-{place}",
                f"{name}: contributions against the row of {own}",
                f"Scatter: what {name} writes about an example against that example's "
                f"weight in the row of {own}, both query-centred, {len(shown)} of {len(rows)} "
                "examples",
                scatter(shown, own=own, unit=unit_of(found)),
            )
        )
    return pictures


def unit_of(found: Mapping[str, Any]) -> str:
    """In what contributions are measured."""
    return "half ranges of y" if found["direction"] == "ridge read-out" else "no unit"


def scatter(rows: pd.DataFrame, *, own: str, unit: str) -> go.Figure:
    """Contributions of one head against the hypothesis' row."""
    figure = go.Figure(layout=layout(height=380))
    figure.add_trace(
        go.Scatter(
            x=[float(f"{value:.4g}") for value in rows["hypothesis_row"]],
            y=[float(f"{value:.4g}") for value in rows["contribution"]],
            mode="markers",
            marker={"color": BLUE, "size": 5, "opacity": 0.5},
            customdata=rows[["context", "query", "example"]].to_numpy().tolist(),
            hovertemplate="context %{customdata[0]}, query %{customdata[1]}, example "
            "%{customdata[2]}: weight %{x}, writes %{y}<extra></extra>",
        )
    )
    figure.update_xaxes(title_text=f"weight of the example in {own}, query-centred")
    figure.update_yaxes(title_text=f"contribution, query-centred ({unit})", automargin=True)
    return figure


def heads(found: Mapping[str, Any]) -> Table:
    """The changed heads and the best one, beside the rows of hypotheses."""
    lines = [report_tables.with_place(one) for one in found["heads"]]
    own = found["row_test"]["hypothesis"]
    correlations = {
        "correlation": own,
        "with_y": f"{own} times y",
        "gd": "gd(1)",
        "kernel": "kernel(1/3)",
        "nearest": "nearest(1)",
    }
    columns = (
        report_tables.WHERE,
        Column("why", "Shown because", report_tables.as_text, numeric=False),
        *(
            Column(key, f"Correlation with {name}", report_tables.interval_cell)
            for key, name in correlations.items()
        ),
        Column("negative", "Negative share of mass", _number),
        report_tables.SAYS,
    )
    return report_tables.table(
        "Contributions of heads to the answer, signed, beside the rows of hypotheses "
        "(query-centred; the last column is the row test on contributions)",
        columns,
        lines,
    )


def _number(value: Any, missing: str) -> str:
    return number_text(value, missing=missing)
