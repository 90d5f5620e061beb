"""Reading table files cell by cell: CSV, TSV, JSONL and Parquet, plain or gzipped."""

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from prompts.cells import NUMBER
from prompts.refusal import Refusal
from prompts.table import Column


class Cells(NamedTuple):
    """Columns of equal length and the place of every row in the file."""

    columns: dict[str, Column]
    places: tuple[str, ...]


def read_cells(path: Path, separator: str | None) -> Cells:
    """The cells of a file, by the reader that its suffix names.

    Refuses what is not there, not a file, of an unknown kind, or damaged.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in READERS:
        known = ", ".join(f".{name}" for name in READERS)
        raise Refusal(f"a table file is needed ({known}, also .gz); came {str(path)!r}")
    if not path.is_file():
        raise Refusal(f"a file is needed; came {str(path)!r}, which is not there or not a file")
    try:
        data = path.read_bytes()
        if path.name.lower().endswith(".gz") or data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(f"a readable file is needed; came {str(error)!r}", where=path.name) from None
    cells = READERS[kind](data, path.name, separator)
    if not cells.columns or not cells.places:
        raise Refusal("a table with rows is needed; there are none", where=path.name)
    return cells


def _decoded(data: bytes, name: str) -> str:
    """Text of a file, its byte-order mark taken off; refuses bytes that are no text."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = data[error.start]
        sentence = f"UTF-8 text is needed; came the byte 0x{byte:02X}"
        raise Refusal(sentence, where=f"{name}, line {line}") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Refusal("text is needed; came a zero byte", where=f"{name}, line {line}")
    return text


def _delimited(data: bytes, name: str, separator: str | None, default: str) -> Cells:
    mark = separator or default
    if len(mark) != 1 or mark in '\r\n"':
        raise Refusal(f"a separator is one character; came {mark!r}")
    reader = csv.reader(io.StringIO(_decoded(data, name), newline=""), delimiter=mark, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise Refusal(f"the line cannot be read: {error}", where=f"{name}, line {start}") from None
    if not rows:
        raise Refusal("a table with a header is needed; the file is empty", where=name)
    header = _header(rows[0], mark, f"{name}, line {lines[0]}")
    for row, line in zip(rows[1:], lines[1:], strict=True):
        if len(row) != len(header):
            needed = f"{len(header)} cells are needed, as in the header; came {len(row)}"
            raise Refusal(needed, where=f"{name}, line {line}")
    columns = {key: Column([row[j] for row in rows[1:]]) for j, key in enumerate(header)}
    return Cells(columns, tuple(f"line {line}" for line in lines[1:]))


def _header(row: Sequence[str], mark: str, where: str) -> list[str]:
    names = [name.strip() for name in row]
    if len(names) == 1 and (found := [c for c in ";\t|," if c in names[0] and c != mark]):
        raise Refusal(f"cells look separated by {found[0]!r}, not {mark!r}", where=where)
    if all(NUMBER.fullmatch(name) for name in names):
        raise Refusal(f"a header of column names is needed; came {', '.join(names)}", where=where)
    if "" in names:
        raise Refusal(
            f"every column needs a name; column {names.index('') + 1} has none", where=where
        )
    _check_unique(names, where)
    return names


def _check_unique(names: Sequence[str], where: str) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise Refusal(f"column names must differ; {twice[0]!r} stands twice", where=where)


def _csv(data: bytes, name: str, separator: str | None) -> Cells:
    return _delimited(data, name, separator, ",")


def _tsv(data: bytes, name: str, separator: str | None) -> Cells:
    return _delimited(data, name, separator, "\t")


def _jsonl(data: bytes, name: str, separator: str | None) -> Cells:
    records: list[dict[str, Any]] = []
    places: list[str] = []
    for number, line in enumerate(re.split("\r\n|\n|\r", _decoded(data, name)), start=1):
        if line.strip():
            records.append(_record(line, f"{name}, line {number}"))
            places.append(f"line {number}")
    keys = list(dict.fromkeys(key for record in records for key in record))
    columns = {key: Column([record.get(key) for record in records]) for key in keys}
    return Cells(columns, tuple(places))


def _record(line: str, where: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_unique([key for key, _ in pairs], where)
        return dict(pairs)

    def constant(text: str) -> Any:
        raise Refusal(f"JSON is needed; came {text}", where=where)

    try:
        record = json.loads(
            line, object_pairs_hook=unique, parse_constant=constant, parse_float=Decimal
        )
    except Refusal:
        raise
    except ValueError as error:
        raise Refusal(f"one JSON object a line is needed; {error}", where=where) from None
    if not isinstance(record, dict):
        raise Refusal(f"one JSON object a line is needed; came {line[:40]!r}", where=where)
    return record


def _parquet(data: bytes, name: str, separator: str | None) -> Cells:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise Refusal(f"a Parquet file is needed; it is damaged ({first})", where=name) from None
    _check_unique(table.column_names, name)
    columns = {}
    for field in table.schema:
        if not re.fullmatch(r"__index_level_\d+__", field.name):
            columns[field.name] = arrow_column(field.type, table.column(field.name).to_pylist())
    return Cells(columns, tuple(f"row {i + 1}" for i in range(table.num_rows)))


def arrow_column(kind: Any, cells: list[Any]) -> Column:
    """A column of an Arrow type; lists, structs, maps and bytes hold no single numbers."""
    shown = re.sub(r"\b(item|element): ", "", str(kind))
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    binary = binary or pa.types.is_fixed_size_binary(kind)
    nested = pa.types.is_nested(getattr(kind, "storage_type", kind))
    return Column(cells, shown, scalar=not (nested or binary))


READERS: Mapping[str, Callable[[bytes, str, str | None], Cells]] = MappingProxyType(
    {
        "csv": _csv,
        "tsv": _tsv,
        "jsonl": _jsonl,
        "ndjson": _jsonl,
        "parquet": _parquet,
    }
)
