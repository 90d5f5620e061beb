"""Ridge regression of one number on many, for all penalties at once."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from analysis.design import Floats

# A column whose spread is rounding, and a direction in which no observation differs.
CONSTANT, EMPTY = 1e-6, 1e-12


class RidgeFit(NamedTuple):
    """Standardised observations, turned so that every penalty costs one division.

    mean, size: (d,), of each column; size 0 marks a constant column, which gets no weight.
    directions: (d, k), eigenvectors of the sum of products; eigenvalues, cross: (k,); centre: the
    mean of the values. unit: the mean eigenvalue over observations, what a penalty is a share of.
    """

    mean: Floats
    size: Floats
    directions: Floats
    eigenvalues: Floats
    cross: Floats
    centre: float
    unit: float

    def weights(self, penalties: Floats) -> Floats:
        """Weights (penalty, d) of the standardised columns."""
        shrunk = self.cross / (self.eigenvalues + penalties[:, None] * self.unit)
        return np.asarray(shrunk @ self.directions.T)

    def predict(self, x: Floats, penalties: Floats) -> Floats:
        """Predictions (penalty, n) for observations (n, d)."""
        weights = self.weights(penalties) * reciprocal(self.size)
        return np.asarray(self.centre + weights @ (x - self.mean).T)

    def line(self, penalty: float) -> tuple[Floats, float]:
        """Coefficient (d,) of the columns as they came, and the intercept."""
        coefficient = self.weights(np.array([penalty]))[0] * reciprocal(self.size)
        return coefficient, float(self.centre - self.mean @ coefficient)


def fit_ridge(x: Floats, values: Floats) -> RidgeFit:
    """Prepare the ridge regression of values (n,) on the columns of x (n, d), scaled to unit sd.

    A penalty p is p times the mean eigenvalue of the standardised products: the least of
    |values - x w|^2 + p x unit x |w|^2, with an intercept that is not shrunk.
    """
    mean, size = x.mean(axis=0), x.std(axis=0)
    size = np.where(size > CONSTANT * np.abs(x).max(axis=0, initial=0.0), size, 0.0)
    scaled = (x - mean) * reciprocal(size)
    wide = x.shape[1] > len(x)
    eigenvalues, vectors = eigh(scaled @ scaled.T if wide else scaled.T @ scaled)
    total = float(eigenvalues.sum())
    kept = eigenvalues > EMPTY * max(total, 0.0)
    eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
    directions = scaled.T @ vectors / np.sqrt(eigenvalues) if wide else vectors
    centre = float(values.mean())
    cross = directions.T @ (scaled.T @ (values - centre))
    return RidgeFit(mean, size, directions, eigenvalues, cross, centre, total / len(x))


def reciprocal(size: Floats) -> Floats:
    """1 / size, 0 where size is 0."""
    return np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
