"""Regression contexts from a table: files, DataFrames and what ships with scikit-learn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prompts.contexts import Context, ContextSet
from prompts.numerals import Codec
from prompts.refusal import Refusal, unknown_name
from prompts.table import Column, Table
from prompts.table_files import read_cells
from prompts.table_print import Ranges, print_columns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BUNDLED = {"diabetes": "progression", "linnerud": "Weight"}
RESHUFFLES = 51


def read_table(
    source: str | Path | pd.DataFrame,
    *,
    separator: str | None = None,
    missing: Sequence[str] = (),
    date_format: str | Mapping[str, str] | None = None,
) -> Table:
    """A table from a CSV, TSV, JSONL or Parquet file (also .gz), a DataFrame, or by name.

    ``diabetes`` and ``linnerud`` ship with scikit-learn. `separator` parts the cells of CSV and
    TSV files, `missing` lists the cell texts that are declared missing, `date_format` says how
    dates are written, as one strptime format or one for each column. Cells are kept as they
    stand; what is used as a number is checked when it is. Refuses, naming file and line, what
    cannot be read as a table.
    """
    table = _from_source(source, separator)
    for name in date_format if isinstance(date_format, Mapping) else ():
        table.column(name)
    return replace(table, missing=tuple(missing), date_format=date_format)


def _from_source(source: str | Path | pd.DataFrame, separator: str | None) -> Table:
    if isinstance(source, pd.DataFrame):
        return _from_frame(source)
    if not isinstance(source, str | Path):
        raise Refusal(f"a path or a DataFrame is needed; came {type(source).__name__}")
    if str(source) in BUNDLED:
        return _bundled(str(source))
    path = Path(source)
    if not path.suffix and not path.exists():
        raise unknown_name("table", str(source), BUNDLED)
    cells = read_cells(path, separator)
    return Table(path.name, cells.columns, cells.places)


def _from_frame(frame: pd.DataFrame) -> Table:
    names = [str(name) for name in frame.columns]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise Refusal(f"column names must differ; {twice[0]!r} stands twice", where="DataFrame")
    columns = {}
    for j, name in enumerate(names):
        kind = str(frame.dtypes.iloc[j])
        shown = "" if kind in ("object", "str", "string") else kind
        columns[name] = Column(frame.iloc[:, j].tolist(), shown)
    places = tuple(f"row {i + 1}" for i in range(len(frame)))
    if not columns or not places:
        raise Refusal("a table with rows is needed; there are none", where="DataFrame")
    return Table("DataFrame", columns, places)


def _bundled(name: str) -> Table:
    from sklearn import datasets  # a second that other tables need not wait for

    bunch = getattr(datasets, f"load_{name}")()
    target = BUNDLED[name]
    features = tuple(str(feature) for feature in bunch.feature_names)
    targets = tuple(str(t) for t in getattr(bunch, "target_names", ())) or (target,)
    data = np.column_stack([bunch.data, bunch.target])
    columns = {
        column: Column(values.tolist())
        for column, values in zip(features + targets, data.T, strict=True)
    }
    places = tuple(f"row {i + 1}" for i in range(len(data)))
    return Table(name, columns, places, default_features=features, default_target=target)


def table_contexts(
    table: Table,
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    examples: int = 20,
    queries: int = 8,
    contexts: int = 64,
    codec: Codec,
    rng: np.random.Generator,
    ranges: Ranges | None = None,
    allow_dependent: bool = False,
    shuffle_labels: bool = False,
) -> ContextSet:
    """Contexts whose examples and queries are rows of a table, in random order.

    `features` are all columns but the target unless named. Codec coordinates, and the print of an
    affine codec, use each column's `ranges` (low, high) where declared, else its whole range.
    No two contexts share a row where the table is long enough; otherwise disjoint blocks of rows
    are the resampled unit, contexts of one block share rows, and `preview_reason` says so. A
    context whose printed columns are constant or dependent is drawn again and counted, up to 50
    times. `shuffle_labels` permutes y over the table's rows. Refuses a constant target, and
    constant, copied or dependent features (as read or as printed) unless `allow_dependent`, which
    asks for minimum-norm rows.
    """
    target = target or table.default_target
    names = _chosen(table, target, features)
    printed, numbers = print_columns(
        table, [*names, target], codec=codec, ranges=ranges or {}, allow_dependent=allow_dependent
    )
    values = printed.values.copy()
    _check_counts(table, len(values), examples, queries, contexts)
    if shuffle_labels:
        values[:, -1] = rng.permutation(values[:, -1])
    drawn = _draw_rows(values, examples, examples + queries, contexts, rng, allow_dependent)
    chosen = [(values[rows[:examples]], values[rows[examples:]]) for rows in drawn.rows]
    return ContextSet(
        contexts=tuple(Context(a[:, :-1], a[:, -1], b[:, :-1], b[:, -1]) for a, b in chosen),
        codec=codec,
        feature_names=tuple(names),
        target_name=target,
        middle=printed.middle,
        half_range=printed.half_range,
        redrawn=drawn.redrawn,
        unit="block of rows" if drawn.shared else "context",
        preview_reason=f"{table.source}: {drawn.shared}" if drawn.shared else "",
        warnings=(*numbers.warnings, *printed.warnings, *drawn.warnings),
        blocks=drawn.blocks,
    )


def _check_counts(table: Table, rows: int, examples: int, queries: int, contexts: int) -> None:
    need = examples + queries
    if min(examples, queries, contexts) < 1 or rows < need:
        came = f"{contexts} contexts of {examples} examples and {queries} queries, and {rows} rows"
        sentence = f"at least 1 of each and {need} rows are needed; came {came}"
        raise Refusal(sentence, where=table.source)


class _Rows(NamedTuple):
    """Rows of each context, the block of each, and what was noticed; `shared` says why blocks."""

    rows: list[Integers]
    blocks: tuple[int, ...]
    shared: str
    redrawn: int
    warnings: tuple[str, ...]


def _draw_rows(
    values: Floats,
    examples: int,
    need: int,
    contexts: int,
    rng: np.random.Generator,
    allow_dependent: bool,
) -> _Rows:
    count, shared = len(values), ""
    blocks = [rng.permutation(count)]
    if contexts * need > count:
        blocks = np.array_split(blocks[0], count // need)
        shared = (
            f"{contexts} contexts of {need} rows without common ones need {contexts * need:,} "
            f"rows, there are {count:,}; disjoint blocks of rows ({len(blocks)}) are resampled"
        )
    every, redrawn, poor = [], 0, 0
    for c in range(contexts):
        pool = blocks[c % len(blocks)]
        for _ in range(RESHUFFLES):
            rows = rng.permutation(pool)[:need]
            full = _full_rank(values[rows[:examples], :-1])
            if full or allow_dependent:
                break
            redrawn += 1
        poor += not full
        every.append(rows)
        if not shared:
            blocks = [np.setdiff1d(pool, rows)]
    groups = tuple(c % len(blocks) if shared else c for c in range(contexts))
    warnings = []
    if poor and not allow_dependent:
        what = "a printed feature is constant or dependent"
        warnings.append(f"in {poor} of {contexts} contexts {what}")
    return _Rows(every, groups, shared, redrawn, tuple(warnings))


def _full_rank(x: Floats) -> bool:
    """Whether centred columns (N, P) have the highest rank that so many rows allow."""
    centred = x - x.mean(axis=0)
    largest = np.abs(centred).max(axis=0)
    unit = centred / np.where(largest > 0, largest, 1)
    return bool(np.linalg.matrix_rank(unit, tol=1e-9 * len(x)) == min(x.shape[1], len(x) - 1))


def _chosen(table: Table, target: str, features: Sequence[str] | None) -> list[str]:
    if not target:
        raise Refusal(f"a target column is needed, one of {', '.join(table.columns)}")
    table.column(target)
    default = table.default_features or tuple(table.columns)
    names = list(features) if features is not None else [n for n in default if n != target]
    for name in names:
        table.column(name)
    if not names or target in names or len(set(names)) < len(names):
        raise Refusal(
            f"features must be columns that differ from each other and from the target {target!r}; "
            f"came {', '.join(names) or 'none'}",
            where=table.source,
        )
    return names
