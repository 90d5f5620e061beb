"""How a hypothesis with parameters is written: ``ridge(0.01)``, ``kernel(1/3)``."""

import re
from fractions import Fraction

from analysis.bank.hypothesis import Parameter

NAME = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\(([^()]*)\))?\s*")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?")
RATIO = re.compile(r"[0-9]+/0*[1-9][0-9]*")


def shown(value: Parameter) -> str:
    """A parameter as it stands in a name: shortest decimal, or a ratio such as 1/3."""
    if isinstance(value, str):
        return value
    ratio = Fraction(value).limit_denominator(12)
    text = f"{value:.12g}"
    return str(ratio) if len(text) > 8 and float(ratio) == float(value) else text


def written(kind: str, *parameters: Parameter) -> str:
    """The full name, ``kind`` or ``kind(a,b)``."""
    return f"{kind}({','.join(map(shown, parameters))})" if parameters else kind


def counted(number: int, what: str) -> str:
    """``1 step``, ``4 steps``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def parsed(name: str) -> tuple[str, tuple[Parameter, ...]] | None:
    """The kind and the parameters of a written name; None where it is no such name."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    kind, inside = match.groups()
    if inside is None or not inside.strip():
        return kind, ()
    return kind, tuple(parameter(piece.strip()) for piece in inside.split(","))


def parameter(text: str) -> Parameter:
    """A number, a ratio as a number, or a word as it is."""
    if RATIO.fullmatch(text):
        return float(Fraction(text))
    return float(text) if NUMBER.fullmatch(text) else text
