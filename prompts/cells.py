"""One cell of a table: when it is a number, and when it is missing, a date, or something else."""

import datetime
import math
import re
import unicodedata
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    r"[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{4}|[0-9]{2})(\D.*)?"
    r"|[0-9]{4}[-/.][0-9]{1,2}([-/.][0-9]{1,2}(\D.*)?)?"
    r"|[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?"
    rf"|[0-9]{{1,2}}[-/. ]*{MONTH}[-/. ,]*[0-9]{{2,4}}(\D.*)?"
    rf"|{MONTH} *[0-9]{{1,2}},? +[0-9]{{2,4}}(\D.*)?",
    re.ASCII | re.IGNORECASE,
)
EPOCH = datetime.datetime(1970, 1, 1)


class CellError(ValueError):
    """A cell that is not a number; the message says why, or is empty where it is plain text."""


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: null, NaN, NaT, or text without a character."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, Real | Decimal) and math.isnan(cell)


def is_date(cell: Any) -> bool:
    """Whether a cell is a date or a time, by type or by the look of its text.

    ``1.2016`` is a number; year and month need a minus or a slash.
    """
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return True
    if type(cell).__name__ in ("datetime64", "timedelta64"):
        return True
    text = cell.strip() if isinstance(cell, str) else ""
    return bool(DATE.fullmatch(text)) and not NUMBER.fullmatch(text)


def is_calendar_integer(number: float) -> bool:
    """Whether a number reads as yyyymmdd, from 1900 to 2100."""
    if number != int(number) or not 19000101 <= number <= 21001231:
        return False
    year, month, day = int(number) // 10000, int(number) // 100 % 100, int(number) % 100
    return 1 <= month <= 12 and 1 <= day <= 31 and year > 0


def number(cell: Any) -> float:
    """The cell as float64, exactly or (for fractions) rounded once.

    Text follows ASCII decimal notation, with blanks around it and U+2212 allowed as minus. Raises
    CellError on what is missing, not finite, an integer that float64 cannot hold, or no number.
    """
    if is_missing(cell):
        raise CellError("is empty" if isinstance(cell, str) or cell is None else "is missing")
    if isinstance(cell, str):
        return _from_text(cell)
    if isinstance(cell, Integral):  # bool and numpy integers too
        return _exact(int(cell))
    if isinstance(cell, Real | Decimal) or type(cell).__name__ == "bool":
        value = float(cell)
        if not math.isfinite(value):
            raise CellError("is not finite")
        return value
    if is_date(cell):
        raise CellError("is a date")
    raise CellError(f"is a {type(cell).__name__}")


def days(cell: Any, date_format: str) -> float:
    """Days since 1970-01-01 of a date, read with a strptime format where it is text."""
    if isinstance(cell, str):
        try:
            moment = datetime.datetime.strptime(cell.strip(), date_format)
        except ValueError:
            raise CellError(f"is not a date of format {date_format!r}") from None
    elif isinstance(cell, datetime.datetime):
        moment = cell
    elif isinstance(cell, datetime.date):
        moment = datetime.datetime(cell.year, cell.month, cell.day)
    else:
        return days(f"{number(cell):.0f}", date_format)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - EPOCH) / datetime.timedelta(days=1)


def shown(cell: Any) -> str:
    """A cell as a refusal shows it."""
    if is_missing(cell):
        return "empty" if isinstance(cell, str) or cell is None else "missing"
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."


def _from_text(cell: str) -> float:
    text = cell.strip().replace("\N{MINUS SIGN}", "-")
    if not NUMBER.fullmatch(text):
        foreign = dict.fromkeys(c for c in text if not c.isascii())
        if foreign and NUMBER.fullmatch("".join(map(_ascii_look, text))):
            raise CellError("holds " + ", ".join(f"U+{ord(c):04X}" for c in foreign))
        if re.fullmatch(r"[+-]?[0-9.]*,[0-9]+", text):
            raise CellError("has a comma, which is read neither as a point nor as a separator")
        raise CellError("")
    if re.fullmatch("[+-]?[0-9]+", text):
        return _exact(int(text)) if len(text) < 400 else _infinite()
    value = float(text)
    if math.isinf(value):
        return _infinite()
    if value == 0 and re.search("[1-9]", text.lower().split("e")[0]):
        raise CellError("is too small for float64")
    return value


def _ascii_look(character: str) -> str:
    """What a character of another script stands for in a number: a digit, a blank or a minus."""
    if character.isascii():
        return character
    if character.isdigit():
        return "0"
    return "-" if unicodedata.category(character) in ("Pd", "Sm") else ""


def _exact(value: int) -> float:
    try:
        rounded = float(value)
    except OverflowError:
        return _infinite()
    if int(rounded) != value:
        raise CellError("is an integer that float64 cannot hold exactly")
    return rounded


def _infinite() -> float:
    raise CellError("is too large for float64")
