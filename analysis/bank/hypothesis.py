"""What a hypothesis is: a row of weights that a query gives to the examples, with its facts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.design import ContextArrays, Floats

FAMILIES = (
    "inverse",
    "fixed metric",
    "kernel",
    "context-scaled",
    "lexical",
    "positional",
    "online",
    "y",
    "cosine",
)

OWN = "own"
"""The family of a user's own function: compared with all of M0* and the least-squares row."""

RowFunction = Callable[[ContextArrays], Floats]
Parameter = float | str


@dataclass(frozen=True)
class Hypothesis:
    """One way in which a query may weigh the examples of its prompt.

    name: as listed, with its parameters, for example ``ridge(0.01)``.
    family: one of `FAMILIES`, or `OWN`; inside "inverse" only the inversion index tells members
        apart.
    statement: one line that says what the row is.
    source: arXiv id and section, empty for a user's own hypothesis.
    affine_invariant: whether an invertible affine map of x leaves the row unchanged; the rows of
        all others depend on the codec and are computed in codec coordinates.
    row: ContextArrays -> (C, M, N), the weight image. It depends on x, the queries, the order and
        the numerals, never on y. The prediction is the weighted sum of y. None where the method
        needs y to find its weights: then it is a predictor only.
    score: the score image, for hypotheses whose weights are a softmax or a normalised kernel of
        it; None where both images are the row.
    predictor: ContextArrays -> (C, M), only where `row` is None.
    params: the parameters behind the name.
    """

    name: str
    family: str
    statement: str
    row: RowFunction | None
    source: str = ""
    affine_invariant: bool = False
    score: RowFunction | None = None
    predictor: RowFunction | None = None
    params: Mapping[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.family not in (*FAMILIES, OWN):
            raise ValueError(
                f"hypothesis {self.name!r}: needed a family among {', '.join(FAMILIES)}; "
                f"came {self.family!r}"
            )
        if (self.row is None) == (self.predictor is None):
            raise ValueError(
                f"hypothesis {self.name!r}: needed a row or, where weights depend on y, "
                f"a predictor, and not both"
            )


def rows(hypothesis: Hypothesis, contexts: ContextArrays) -> Floats:
    """The weights that each query gives to each example, (C, M, N).

    Refuses a hypothesis that is a predictor only, and a row function whose result has another
    shape or holds NaN or infinity.
    """
    if hypothesis.row is None:
        raise ValueError(
            f"hypothesis {hypothesis.name!r} has no row: its weights depend on y, "
            f"it can only be compared as a predictor"
        )
    return checked_rows(hypothesis.name, hypothesis.row(contexts), contexts)


def scores(hypothesis: Hypothesis, contexts: ContextArrays) -> Floats:
    """The score image, (C, M, N): what stands before the softmax or the kernel's normalisation.

    Equal to `rows` where the hypothesis has one image only.
    """
    if hypothesis.score is None:
        return rows(hypothesis, contexts)
    return checked_rows(hypothesis.name, hypothesis.score(contexts), contexts)


def predict(hypothesis: Hypothesis, contexts: ContextArrays) -> Floats:
    """The answer that the hypothesis gives to each query, (C, M), in codec coordinates of y."""
    if hypothesis.predictor is None:
        weights = rows(hypothesis, contexts)
        return np.asarray(np.einsum("cmn,cn->cm", weights, contexts.y))
    return checked(hypothesis.name, hypothesis.predictor(contexts), contexts.queries.shape[:2])


def checked_rows(name: str, values: object, contexts: ContextArrays) -> Floats:
    """`values` as a float64 array, refused unless it is (C, M, N) and finite."""
    examples = contexts.x.shape[1]
    return checked(name, values, (*contexts.queries.shape[:2], examples))


def checked(name: str, values: object, shape: tuple[int, ...]) -> Floats:
    """`values` as a float64 array, refused unless it has `shape` and is finite."""
    try:
        came = np.asarray(values)
    except ValueError:  # rows of unequal length
        came = np.asarray(None)
    if came.dtype.kind not in "fiub":
        raise ValueError(
            f"hypothesis {name!r}: needed an array of numbers of shape {shape}; "
            f"came {type(values).__name__}"
        )
    array: Floats = came.astype(np.float64, copy=False)
    if array.shape != shape:
        axes = "(contexts, queries, examples)" if len(shape) == 3 else "(contexts, queries)"
        raise ValueError(
            f"hypothesis {name!r}: needed an array of shape {shape} {axes}; came {array.shape}"
        )
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        axes = "context, query, example" if len(shape) == 3 else "context, query"
        raise ValueError(
            f"hypothesis {name!r}: needed finite numbers; came {array[place]} at ({axes}) = {place}"
        )
    return array
