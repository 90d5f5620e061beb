"""Refusals of parameters that no hypothesis can have."""

import math


def positive(kind: str, what: str, value: float | str, *, zero: bool = False) -> float:
    """`value` as a float above 0 (or at least 0 with `zero`)."""
    number = math.nan if isinstance(value, str) else float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        least = "of at least 0" if zero else "above 0"
        raise ValueError(f"hypothesis {kind!r}: needed a {what} {least}; came {value!r}")
    return number


def count(kind: str, what: str, value: float | str, *, low: int) -> int:
    """`value` as a whole number of at least `low`."""
    if isinstance(value, str) or not math.isfinite(value) or value != int(value) or value < low:
        raise ValueError(
            f"hypothesis {kind!r}: needed a whole number of {what}, at least {low}; came {value!r}"
        )
    return int(value)


def share(kind: str, what: str, value: float | str, *, one: bool = False) -> float:
    """`value` as a float between 0 and 1, both excluded (1 included with `one`)."""
    number = math.nan if isinstance(value, str) else float(value)
    if not 0 < number < 1 and not (one and number == 1):
        bounds = "above 0, at most 1" if one else "between 0 and 1"
        raise ValueError(f"hypothesis {kind!r}: needed a {what} {bounds}; came {value!r}")
    return number
