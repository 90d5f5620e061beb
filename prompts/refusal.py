"""A refusal: one sentence that says what was needed, what came, and where."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class Refusal(ValueError):
    """Input that cannot be used, said in one sentence.

    `sentence` says what was needed and what came (with ``!r``); `where` names the place
    (file line and column, prompt and piece, layer and head) and may be empty. `setting`: the
    setting it is about, where it is about one; the command then says which flag or which key of
    the settings file gave it. The command prints one line and exits with 1.
    """

    def __init__(self, sentence: str, *, where: str = "", setting: str = "") -> None:
        super().__init__(f"{where}: {sentence}" if where else sentence)
        self.sentence = sentence
        self.where = where
        self.setting = setting


@contextmanager
def about(setting: str) -> Iterator[None]:
    """What is refused within is about this setting; a plain ValueError becomes a refusal."""
    try:
        yield
    except Refusal as refusal:
        refusal.setting = refusal.setting or setting
        raise
    except ValueError as error:
        raise Refusal(str(error), setting=setting) from error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> Refusal:
    """A refusal of an unknown name that lists the near ones, or all where none is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=5, cutoff=0.5) or names
    return Refusal(f"unknown {kind} {name!r}; near names: {', '.join(near)}")
