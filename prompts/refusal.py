"""A refusal: one sentence that says what was needed, what came, and where."""

from collections.abc import Iterable
from difflib import get_close_matches


class Refusal(ValueError):
    """Input that cannot be used, said in one sentence.

    `sentence` says what was needed and what came (with ``!r``); `where` names the place
    (file line and column, prompt and piece, layer and head) and may be empty.
    The command prints it as one line and exits with 1.
    """

    def __init__(self, sentence: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {sentence}" if where else sentence)
        self.sentence = sentence
        self.where = where


def unknown_name(kind: str, name: str, known: Iterable[str]) -> Refusal:
    """A refusal of an unknown name that lists the near ones, or all where none is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=5, cutoff=0.5) or names
    return Refusal(f"unknown {kind} {name!r}; near names: {', '.join(near)}")
