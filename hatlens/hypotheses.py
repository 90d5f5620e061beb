"""A user's own hypothesis: a function, or FILE.py:NAME."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from analysis.bank import Hypothesis, hypothesis_named, own_hypothesis
from analysis.design import ContextArrays, Floats
from prompts.refusal import Refusal

Own = Hypothesis | Callable[[ContextArrays], Floats]
"""A hypothesis as a user gives it: whole, or as a function that gives its row."""


def resolve(hypotheses: Sequence[str | Own]) -> list[Hypothesis]:
    """Hypotheses by bank name, by FILE.py:NAME, as functions, or as they are.

    Refuses none at all, and one that has no row: it can only be compared as a predictor.
    """
    found = [one(given) for given in hypotheses]
    if not found:
        raise Refusal("needed at least one hypothesis to test on the rows, got none")
    for each in found:
        if each.row is None:
            raise Refusal(
                f"needed a hypothesis with a row, got {each.name!r}, whose weights depend on y; "
                "it is compared with the answers in every report"
            )
    return found


def one(given: str | Own) -> Hypothesis:
    """One hypothesis; a function ``ContextArrays -> (C, M, N)`` joins under its own name."""
    if isinstance(given, Hypothesis):
        return given
    if isinstance(given, str):
        path, separator, name = given.rpartition(":")
        if not separator:
            return hypothesis_named(given)
        return one(from_file(Path(path), name))
    return own_hypothesis(given)


def from_file(path: Path, name: str) -> Any:
    """The function or Hypothesis of that name in a Python file."""
    if not path.is_file():
        raise Refusal("needed a Python file with the hypothesis, found none", where=str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Refusal(f"cannot be imported: {error!r}", where=str(path)) from error
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise Refusal(f"needed {name!r}, found {', '.join(public)}", where=str(path))
    return getattr(module, name)
