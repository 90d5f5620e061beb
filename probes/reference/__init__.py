"""Models whose mechanism is known: the positive controls of every probe."""

from probes.reference.gradient_descent import GradientDescentModel
from probes.reference.least_squares import LeastSquaresModel, inverse
from probes.reference.rows import PlantedRows, planted_rows

__all__ = ["GradientDescentModel", "LeastSquaresModel", "PlantedRows", "inverse", "planted_rows"]
