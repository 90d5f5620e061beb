"""The control of a foreign S: least squares with another context's cross-products."""

import numpy as np

from analysis.bank.geometry import centred, geometry, inverted
from analysis.bank.hypothesis import Hypothesis
from analysis.design import ContextArrays, Floats

FOREIGN = "foreign_s"


def foreign_least_squares() -> Hypothesis:
    """The least-squares row with Sc of another context: 1/N + (q - mean)' S_other^-1 (x_i - mean).

    Each context takes the Sc of the one that stands half the set away, so that examples, query
    and mean are its own and only the matrix is not. A row that uses the S^-1 of its own examples
    does not contain it (2504.09663; it is a fixed metric drawn anew for every context).
    """
    return Hypothesis(
        name=FOREIGN,
        family="inverse",
        statement="least squares with another context's Sc",
        source="2504.09663 (least squares as attention), with a foreign matrix",
        row=foreign_rows,
    )


def foreign_rows(contexts: ContextArrays) -> Floats:
    """See `foreign_least_squares`; (C, M, N). Refuses a single context, which has no other."""
    count = len(contexts.x)
    if count < 2:
        raise ValueError("a foreign S needs at least 2 contexts; came 1")
    other = (np.arange(count) + count // 2) % count
    parts = geometry(contexts)
    inverse = (parts.directions * inverted(parts.eigenvalues)[:, None, :]) @ np.swapaxes(
        parts.directions, 1, 2
    )
    queries, examples = centred(contexts)
    products = queries @ inverse[other] @ np.swapaxes(examples, 1, 2)
    return np.asarray(products + 1.0 / contexts.x.shape[1])
