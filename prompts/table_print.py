"""A table's columns as printed: their fixed map, and what printing would lose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prompts.columns import dependence
from prompts.numerals import Codec
from prompts.refusal import Refusal, unknown_name
from prompts.table import Numbers, Table

Floats = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float]]


class PrintedColumns(NamedTuple):
    """Columns as printed (n, K), the middle and half range of each (K,), and warnings."""

    values: Floats
    middle: Floats
    half_range: Floats
    warnings: tuple[str, ...]


def print_columns(
    table: Table, names: Sequence[str], *, codec: Codec, ranges: Ranges, allow_dependent: bool
) -> tuple[PrintedColumns, Numbers]:
    """The named columns as printed; the last name is the target.

    A column's range is declared in `ranges`, or that of the whole table. Refuses what leaves a
    declared range or does not fit the codec, a target that prints as one value and, unless
    `allow_dependent`, features that are constant, copies or combinations of others, as read or
    as printed.
    """
    for name in ranges:
        if name not in names:
            raise unknown_name("column", name, names)
    numbers = table.numbers(names)
    read = dependence(numbers.values[:, :-1], names[:-1])
    if read.exact and not allow_dependent:
        raise Refusal(_told_apart(read.exact), where=table.source)
    columns = [_Column(table, numbers, j, name) for j, name in enumerate(names)]
    lows, highs = np.array([column.range(ranges) for column in columns]).T
    limits = zip(columns, lows, highs, strict=True)
    printed = np.column_stack([column.printed(codec, low, high) for column, low, high in limits])
    _check_print(printed, names, codec, table.source, allow_dependent)
    warnings = [f"{said}, nearly: small eigenvalues come from rounding" for said in read.near]
    for j, name in enumerate(names):
        before, left = len(set(numbers.values[:, j])), len(set(printed[:, j]))
        if left < 10 and before >= 2 * left:
            warnings.append(f"{before} values of {name} print as {left}")
    middle, half_range = _coordinates(codec, lows, highs)
    return PrintedColumns(printed, middle, half_range, tuple(warnings)), numbers


def _check_print(
    printed: Floats, names: Sequence[str], codec: Codec, source: str, allow_dependent: bool
) -> None:
    """Refuse columns that print as one value, and features that become dependent in print."""
    for j, name in enumerate(names):
        one_value = len(set(printed[:, j])) == 1
        if one_value and (j == len(names) - 1 or not allow_dependent):
            text = codec.text(printed[0, j])
            raise Refusal(f"{name} prints as one value, {text}", where=source)
    after = dependence(printed[:, :-1], names[:-1])
    if after.exact and not allow_dependent:
        raise Refusal(f"as printed, {_told_apart(after.exact)}", where=source)


def _coordinates(codec: Codec, lows: Floats, highs: Floats) -> tuple[Floats, Floats]:
    if codec.affine:
        lows, highs = np.full_like(lows, codec.low), np.full_like(highs, codec.high)
    half = highs / 2 - lows / 2
    return lows / 2 + highs / 2, np.where(half > 0, half, 1.0)


def _told_apart(parts: Sequence[str]) -> str:
    return (
        f"least squares cannot tell these columns from the others: {'; '.join(parts)} "
        f"(leave them out, or ask for minimum-norm rows)"
    )


@dataclass(frozen=True)
class _Column:
    """Column `j` of the numbers that were read, and its place in a refusal."""

    table: Table
    numbers: Numbers
    j: int
    name: str

    @property
    def values(self) -> Floats:
        return np.asarray(self.numbers.values[:, self.j])

    def range(self, ranges: Ranges) -> tuple[float, float]:
        """The declared range, else that of the whole column."""
        if self.name not in ranges:
            return float(self.values.min()), float(self.values.max())
        low, high = ranges[self.name]
        if not (np.isfinite([low, high]).all() and low < high):
            raise Refusal(
                f"the range of {self.name} needs low below high; came {low!r} to {high!r}"
            )
        outside = (self.values < low) | (self.values > high)
        self._refuse_first(outside, f"in the declared range {low:g} to {high:g}")
        return low, high

    def printed(self, codec: Codec, low: float, high: float) -> Floats:
        """The column as printed, refused where it does not fit the codec."""
        printed = codec.printed(self.values, low=low, high=high)
        fits = f"{codec.numeral(codec.low)} to {codec.numeral(codec.high)}"
        outside = (printed < codec.low) | (printed > codec.high)
        self._refuse_first(outside, f"that fits codec {codec.name!r} ({fits})")
        return printed

    def _refuse_first(self, outside: NDArray[np.bool_], needed: str) -> None:
        for row in np.flatnonzero(outside)[:1]:
            where = f"{self.table.source}, {self.numbers.places[row]}, column {self.name!r}"
            raise Refusal(f"a number {needed} is needed; came {self.values[row]:g}", where=where)
