"""A table as read: cells as they stand in the file, turned into numbers or text on request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.cells import CellError, days, is_calendar_integer, is_date, is_missing, number, shown
from prompts.refusal import Refusal, unknown_name

Floats = NDArray[np.float64]


class Column(NamedTuple):
    """The cells of a column and, where the file declares one, its type; "" is untyped text."""

    cells: Sequence[Any]
    type: str = ""
    scalar: bool = True


class Numbers(NamedTuple):
    """Numeric columns: values (n, K), the place of every row in the file, and warnings."""

    values: Floats
    places: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length from one source.

    `places` names each row (``line 4``, ``row 2``). `missing` are the cell texts that are declared
    missing; "" stands for empty cells and nulls. `date_format` is a strptime format for all
    date-like columns, or one for each named column. `default_features` and `default_target` are
    known for tables that ship with scikit-learn.
    """

    source: str
    columns: Mapping[str, Column]
    places: tuple[str, ...]
    missing: tuple[str, ...] = ()
    date_format: str | Mapping[str, str] | None = None
    default_features: tuple[str, ...] = ()
    default_target: str = ""

    def column(self, name: str) -> Column:
        """The column of that name; refuses an unknown one, listing the near names."""
        if name not in self.columns:
            refusal = unknown_name("column", name, self.columns)
            raise Refusal(refusal.sentence, where=self.source)
        return self.columns[name]

    def text(self, name: str) -> tuple[str, ...]:
        """The column's cells as literal text: NA, None and null are words like any other.

        Refuses cells that hold no text (nulls, lists).
        """
        column = self.column(name)
        for row, cell in enumerate(column.cells):
            empty = not isinstance(cell, str) and is_missing(cell)
            if empty or not column.scalar or isinstance(cell, list | dict):
                raise Refusal(f"text is needed; came {shown(cell)}", where=self.where(row, name))
        return tuple(str(cell) for cell in column.cells)

    def numbers(self, names: Sequence[str]) -> Numbers:
        """The named columns as float64; rows with a declared missing cell are left out.

        Refuses the first cell that is no number, naming its place and listing what else is none;
        a date-like column without a format; and columns of lists, structs or bytes.
        """
        read = [self._column_numbers(name) for name in names]
        values = np.column_stack(read) if read else np.zeros((len(self.places), 0))
        kept: NDArray[np.bool_] = np.array(~np.isnan(values).any(axis=1))
        if not kept.any():
            raise Refusal("no row is left without a declared missing cell", where=self.source)
        warnings = []
        if not kept.all():
            dropped = int((~kept).sum())
            warnings.append(f"{dropped} of {len(kept)} rows with a declared missing cell left out")
        for name, column in zip(names, values[kept].T, strict=True):
            if all(map(is_calendar_integer, column)):
                warnings.append(
                    f"{name} looks like a date written as an integer ({column[0]:.0f}): "
                    f"differences are not days; date_format={{{name!r}: '%Y%m%d'}} counts days"
                )
        places = tuple(place for place, keep in zip(self.places, kept, strict=True) if keep)
        return Numbers(values[kept], places, tuple(warnings))

    def where(self, row: int, name: str) -> str:
        """File, line and column of a cell, for a refusal."""
        return f"{self.source}, {self.places[row]}, column {name!r}"

    def _date_format(self, name: str) -> str | None:
        """How this column's dates are written; None where it holds none or nobody said."""
        if not isinstance(self.date_format, str):
            return (self.date_format or {}).get(name)
        cells = [c for c in self.columns[name].cells if not self._declared_missing(c)]
        dates = cells and (all(map(is_date, cells)) or self.date_format == "%Y%m%d")
        return self.date_format if dates else None

    def _column_numbers(self, name: str) -> Floats:
        """One column, NaN where declared missing."""
        column = self.column(name)
        if not column.scalar:
            where = f"{self.source}, column {name!r}"
            raise Refusal(f"a column of numbers is needed; came {column.type}", where=where)
        date_format = self._date_format(name)
        values = np.full(len(column.cells), np.nan)
        faults: list[tuple[int, CellError]] = []
        for row, cell in enumerate(column.cells):
            if self._declared_missing(cell):
                continue
            try:
                values[row] = days(cell, date_format) if date_format else number(cell)
            except CellError as error:
                faults.append((row, error))
        if faults:
            raise self._not_numbers(name, column, faults)
        return values

    def _declared_missing(self, cell: Any) -> bool:
        if not self.missing:
            return False
        if is_missing(cell):
            return "" in self.missing
        if str(cell).strip() in self.missing:
            return True
        if isinstance(cell, str):
            return False
        try:
            return any(number(marker) == number(cell) for marker in self.missing if marker)
        except CellError:
            return False

    def _not_numbers(
        self, name: str, column: Column, faults: Sequence[tuple[int, CellError]]
    ) -> Refusal:
        row, error = faults[0]
        cells = list(dict.fromkeys(shown(column.cells[r]) for r, _ in faults))
        if any(is_date(column.cells[r]) for r, _ in faults) and not self._date_format(name):
            return Refusal(
                f"{name} looks like a date ({shown(column.cells[row])}), which is no feature "
                f"unless a date format such as '%d/%m/%Y' is given",
                where=self.where(row, name),
            )
        reason = f", which {error}" if str(error) and not is_missing(column.cells[row]) else ""
        others = f"; no numbers in this column: {', '.join(cells[:8])}" if len(cells) > 1 else ""
        more = f" and {len(cells) - 8} others" if len(cells) > 8 else ""
        typed = f" of type {column.type}" if column.type else ""
        return Refusal(
            f"a number is needed; came {cells[0]}{typed}{reason}{others}{more}",
            where=self.where(row, name),
        )
