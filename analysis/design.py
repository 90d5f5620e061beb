"""What every analysis is given: the numbers that were printed, and what the model answered."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Texts = NDArray[np.str_]


class ContextArrays(NamedTuple):
    """C contexts of N examples, P features and M queries, in codec coordinates.

    Codec coordinates are ``z = (printed - middle) / half_range`` with a map that is fixed for the
    whole study, so that rows which are not affine invariant do not depend on the context.

    x: (C, N, P); y: (C, N); queries: (C, M, P), float64.
    x_text: (C, N, P) and query_text: (C, M, P), the numerals as printed (str).
    answers: (C, M), the model's own answers; NaN where the answer could not be read.
    """

    x: Floats
    y: Floats
    queries: Floats
    x_text: Texts
    query_text: Texts
    answers: Floats
