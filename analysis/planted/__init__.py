"""Simulated heads whose mechanism is known: what the row test must and must not name."""

from analysis.planted.scene import Head, Scene, unit_rows
from analysis.planted.table import HEADS, INVERSE, RIVALS

__all__ = ["HEADS", "INVERSE", "RIVALS", "Head", "Scene", "unit_rows"]
