"""A figure of the report, ready for the page."""

from typing import NamedTuple

import plotly.graph_objects as go


class Picture(NamedTuple):
    """A figure and what it shows in words, for those who do not see it."""

    id: str
    title: str
    label: str
    spec: str
    width: int = 0


def picture(id: str, title: str, label: str, figure: go.Figure, *, width: int = 0) -> Picture:
    """A figure ready for the page; `width` is the least width in pixels at which it is readable."""
    return Picture(id, title, label, script_json(figure.to_json()), width)


def script_json(text: str) -> str:
    """JSON that may stand inside a script element: no tag can end or open in it."""
    for sign, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, escape)
    return text
