"""Columns that carry no information of their own: constants, copies and combinations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXACT, NEAR = 1e-9, 1e-2


class Dependence(NamedTuple):
    """Columns that a least-squares fit cannot tell apart, each in words."""

    exact: tuple[str, ...]
    near: tuple[str, ...]


def dependence(columns: Floats, names: Sequence[str]) -> Dependence:
    """Constant columns, and columns that are a combination of those before them.

    `columns` is (n, P). Each entry names the column and its combination, e.g. ``x3 = 1 + 2 x2``.
    `exact` holds those whose residual is below 1e-9 of their spread, `near` (not counted as
    dependent) those below 1e-2. A column that n rows cannot judge is left alone.
    """
    exact: list[str] = []
    near: list[str] = []
    basis: list[int] = []
    scale = np.abs(columns).max(axis=0, initial=0)
    scaled = columns / np.where(scale > 0, scale, 1)  # magnitudes near 1e200 have no squares
    means = scaled.mean(axis=0)
    centred = scaled - means
    spread = np.sqrt((centred**2).mean(axis=0))
    for j, name in enumerate(names):
        if np.all(columns[:, j] == columns[0, j]):
            exact.append(f"{name} is constant ({columns[0, j]:g})")
            continue
        if len(columns) < len(basis) + 3:
            break
        others = centred[:, basis] / spread[basis]
        own = centred[:, j] / spread[j]
        fit = np.linalg.lstsq(others, own, rcond=None)[0]
        residual = float(np.sqrt(((own - others @ fit) ** 2).mean()))
        if residual < NEAR:
            fit = np.where(np.abs(fit) > max(EXACT, residual), fit, 0)
            slopes = fit * spread[j] / spread[basis] * scale[j] / scale[basis]
            constant = (means[j] - fit * spread[j] / spread[basis] @ means[basis]) * scale[j]
            if abs(constant) < max(EXACT, residual) * scale[j]:
                constant = 0.0
            digits = 6 if residual < EXACT else 3
            said = _combination(constant, slopes, [names[k] for k in basis], digits)
            (exact if residual < EXACT else near).append(f"{name} = {said}")
        if residual >= EXACT:
            basis.append(j)
    return Dependence(tuple(exact), tuple(near))


def _combination(constant: float, slopes: Floats, names: Sequence[str], digits: int) -> str:
    """``1 + 2 x2``: coefficients to so many digits, terms of weight 0 left out."""
    text = ""
    for weight, name in [(constant, ""), *zip(slopes, names, strict=True)]:
        size = f"{abs(weight):.{digits}g}"
        if weight == 0:
            continue
        term = size if not name else name if size == "1" else f"{size} {name}"
        if text:
            text += f" - {term}" if weight < 0 else f" + {term}"
        else:
            text = f"-{term}" if weight < 0 else term
    return text or "0"
