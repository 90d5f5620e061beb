"""The part of a comparison's page that goes through the layers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from analysis.picture import Picture, picture
from analysis.similarity_figures import (
    Stroke,
    by_layer_figure,
    change_by_layer_figure,
    strokes_of,
)

PICTURED = (
    "SimAOU (orthogonal)",
    "SimAOU",
    "SimAOU (normalised)",
    "SimAM-delta (centred)",
    "SimAM-delta",
    "Kendall (queries)",
    "Kendall (inputs)",
    "Delta W",
    "update norm (FT)",
)
DASHES = {"solid": "", "dash": "6 4", "dot": "2 3", "dashdot": "6 3 2 3", "longdash": "10 4"}
DARK = {
    "#0969da": "#58a6ff",
    "#bc4c00": "#f0883e",
    "#1a7f37": "#56d364",
    "#8250df": "#d2a8ff",
    "#1f2328": "#e6edf3",
    "#8c959f": "#8b949e",
}
"""What the page makes of the figures' colours in dark mode."""


class Swatch(NamedTuple):
    """One line of the key that all figures share; `dashes` as SVG writes them."""

    name: str
    light: str
    dark: str
    dashes: str
    width: float


class Layered(NamedTuple):
    """Figures by layer, two a measure, under one key."""

    key: Sequence[Swatch]
    pictures: Sequence[Picture]


def layered(tables: Mapping[str, pd.DataFrame]) -> Layered | None:
    """Values by layer and matched minus mismatched by layer; None where no layer is defined."""
    layers = tables.get("layers")
    if layers is None:
        return None
    found = [
        one
        for position in layers["position"].unique()
        for place, key in enumerate(PICTURED)
        for one in pictures_of(layers, str(position), key, place)
    ]
    strokes = strokes_of(layers)
    return Layered([swatch(*one) for one in strokes.items()], found) if found else None


def swatch(name: str, stroke: Stroke) -> Swatch:
    """A line of the key."""
    return Swatch(name, stroke.colour, DARK[stroke.colour], DASHES[stroke.dash], stroke.width)


def pictures_of(layers: pd.DataFrame, position: str, key: str, place: int) -> list[Picture]:
    """The pictures of one measure: its values, and the difference where it has a mismatch."""
    some = layers[(layers["measure"] == key) & (layers["position"] == position)]
    if not some["value"].notna().any():
        return []
    title = key if layers["position"].nunique() == 1 else f"{key}, at {position}"
    found = [
        picture(
            f"layers-{position}-{place}",
            title,
            f"{key} by layer under every comparison; the numbers are in the table layers",
            by_layer_figure(some),
        )
    ]
    if some["difference"].notna().any():
        label = f"Matched minus mismatched of {key} by layer, the model and its twins"
        found.append(
            picture(
                f"change-{position}-{place}",
                f"{title}: matched minus mismatched",
                label,
                change_by_layer_figure(some),
            )
        )
    return found
