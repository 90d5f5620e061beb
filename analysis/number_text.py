"""How a number is written for a reader: never 0 for what is undefined."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

UNDEFINED = "undefined"
NOT_ASSESSABLE = "not assessable"


def is_missing(value: Any) -> bool:
    """Whether a value stands for "undefined": None, or a NaN of any float type; a text never."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def number_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A number with three significant digits, an integer whole, a truth as yes or no."""
    if is_missing(value):
        return missing
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    number = float(value)
    if math.isinf(number):
        return "infinite" if number > 0 else "minus infinite"
    if number.is_integer() and abs(number) < 1e15:
        return f"{int(number)}"
    if number != 0.0 and abs(number) < 1e-3:
        return f"{number:.2e}"
    return _fixed(number, _decimals([number]))


def range_text(values: Sequence[int]) -> str:
    """Whole numbers as the one that all are, or ``least to most``."""
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least} to {most}"


def interval_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """An interval as ``estimate [low, high]``, all three to the same decimal.

    Takes a mapping with these keys, three numbers in that order (an `Interval` is one), or one
    number (then no brackets follow).
    """
    if isinstance(value, str) or not isinstance(value, (Mapping, Sequence)):
        return number_text(value, missing=missing)
    estimate, low, high = interval_parts(value)
    if is_missing(estimate):
        return missing
    known = [float(bound) for bound in (estimate, low, high) if not is_missing(bound)]
    largest = max(abs(bound) for bound in known)
    # three decimals for all that is neither tiny nor large, so that a column lines up
    decimals = 3 if 0.01 <= largest < 10 else _decimals(known)
    if abs(float(estimate)) < 10:
        decimals = max(decimals, 2)  # a far bound must not round the estimate away
    bounds = [UNDEFINED if is_missing(b) else _fixed(float(b), decimals) for b in (low, high)]
    return f"{_fixed(float(estimate), decimals)} [{bounds[0]}, {bounds[1]}]"


def interval_parts(value: Any) -> tuple[Any, Any, Any]:
    """Estimate, low and high of an interval in any of the shapes it comes in; None where absent."""
    if isinstance(value, Mapping):
        return value.get("estimate"), value.get("low"), value.get("high")
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 3:
            raise ValueError(f"needed estimate, low and high of an interval, came {value!r}")
        return value[0], value[1], value[2]
    return value, None, None


def p_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A p-value with three decimals, four below 0.001."""
    if is_missing(value):
        return missing
    p = float(value)
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def percent_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A share of 1 in per cent as a table has it, one decimal where it is not whole."""
    if is_missing(value):
        return missing
    percent = round(100 * float(value), 1)
    return f"{percent:.0f} %" if percent.is_integer() else f"{percent:.1f} %"


def share_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A share of 1 in per cent as a sentence has it: whole, two digits below 10 %."""
    if is_missing(value):
        return missing
    share = float(value)
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def seconds_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A duration in the largest units that fit: ``9 min 12 s``."""
    if is_missing(value):
        return missing
    seconds = float(value)
    if seconds < 10:
        return f"{number_text(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    pieces = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in pieces if count)


def bytes_text(value: Any, *, missing: str = UNDEFINED) -> str:
    """A size in decimal units (1 GB is 10^9 bytes)."""
    if is_missing(value):
        return missing
    size = float(value)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{number_text(size)} {unit}"
        size /= 1000
    return f"{number_text(size)} TB"


def _decimals(numbers: Sequence[float]) -> int:
    """Decimals that give the largest of the numbers three significant digits, at most six."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    if largest == 0.0:
        return 2
    return min(6, max(0, 2 - math.floor(math.log10(largest))))


def _fixed(number: float, decimals: int) -> str:
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if number != 0.0 and abs(number) < 10.0**-6:
        return f"{number:.2g}"
    text = f"{number:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text
