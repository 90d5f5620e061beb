"""Where a setting was given: on the command line, or in the settings file."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "columns": "--column",
        "heads": "--head",
        "hypotheses": "--hypothesis",
        "twin_seeds": "--twin-seed",
    }
)
"""Flags that are not spelled as their settings: they are given once for each value."""


def flag_of(setting: str) -> str:
    """The flag that gives a setting."""
    return FLAGS.get(setting, f"--{setting.replace('_', '-')}")


def place_of(setting: str, words: Sequence[str]) -> str:
    """The flag where the words give it; else the settings file with the key, where there is one.

    Where neither gives it, the flag that would.
    """
    flag = flag_of(setting)
    given = [word.partition("=") for word in words]
    if any(name == flag for name, _, _ in given):
        return flag
    for place, (name, _, file) in enumerate(given):
        if name == "--config":
            return f"{file or ' '.join(words[place + 1 : place + 2])}: {setting}"
    return flag
