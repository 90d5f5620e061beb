"""The least-squares row split by eigen-direction of the examples' scatter."""

from analysis.bank.geometry import Geometry, inverted
from analysis.design import Floats


def direction_rows(shape: Geometry) -> Floats:
    """The least-squares row by eigen-direction of Sc, (C, M, N, P), strongest direction first.

    (q - mean)' u u' (x_i - mean) / eigenvalue for each eigenvector u; 0 where the examples do not
    span the direction. Their sum is the least-squares row less its 1/N.
    """
    weighed = shape.query_parts * inverted(shape.eigenvalues)[:, None, :]
    return weighed[:, :, None, :] * shape.example_parts[:, None, :, :]
