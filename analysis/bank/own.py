"""A hypothesis of the user's own: a function of the contexts, checked when it is called."""

from collections.abc import Callable

import numpy as np

from analysis.bank.hypothesis import OWN, Hypothesis, checked_rows
from analysis.design import ContextArrays, Floats


def own_hypothesis(
    function: Callable[[ContextArrays], object],
    *,
    name: str = "",
    family: str = OWN,
    statement: str = "",
    affine_invariant: bool = False,
) -> Hypothesis:
    """Wrap a function (ContextArrays) -> (C, M, N) so that it joins the bank's comparisons.

    name and statement default to the function's name and the first line of its docstring. The
    function gets a copy of the contexts. Refused when called: another shape, NaN or infinity, and
    weights that change when y does (unless the family is "y").
    """
    called = name or getattr(function, "__name__", type(function).__name__)
    documented = (getattr(function, "__doc__", None) or "").strip().splitlines()

    def row(contexts: ContextArrays) -> Floats:
        weights = checked_rows(called, function(copied(contexts)), contexts)
        if family != "y":
            shifted = copied(contexts)._replace(y=contexts.y[:, ::-1] + 1.0)
            again = checked_rows(called, function(shifted), contexts)
            if not np.array_equal(weights, again):
                raise ValueError(
                    f"hypothesis {called!r}: needed weights that do not depend on y; they changed "
                    f"when y did (a predictor that needs y goes into Hypothesis(predictor=...))"
                )
        return weights

    return Hypothesis(
        name=called,
        family=family,
        statement=statement or (documented[0] if documented else "a hypothesis of the user's own"),
        row=row,
        affine_invariant=affine_invariant,
    )


def copied(contexts: ContextArrays) -> ContextArrays:
    """The same contexts in arrays of their own."""
    return ContextArrays(
        x=contexts.x.copy(),
        y=contexts.y.copy(),
        queries=contexts.queries.copy(),
        x_text=contexts.x_text.copy(),
        query_text=contexts.query_text.copy(),
        answers=contexts.answers.copy(),
    )
