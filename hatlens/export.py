"""Stored rows of chosen heads as files for other tools; no model is needed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hatlens.cells import TRAINED
from hatlens.pattern_shapes import SHAPES, Patterns, new_file
from hatlens.sets import MAIN
from hatlens.store import RunFolder, write_whole
from hatlens.stored_rows import head_grid
from hatlens.study import study_folders
from probes.head_names import Head, parse_heads
from probes.rows import PARTS
from prompts.refusal import Refusal, unknown_name

AXES = {
    "score": ("context", "query", "head", "part", "example"),
    "weight": ("context", "query", "head", "part", "example"),
    "prefix_score": ("context", "place", "head", "part", "example"),
    "prefix_weight": ("context", "place", "head", "part", "example"),
}
NOTE = (
    "rows and columns are examples and the query, no tokens: a weight is the mean over the tokens "
    "of part {part!r} of the column's example, seen from the row's answer position; what a row "
    "gives to its own tokens is not stored and stands as 0; {unseen} weights of examples that a "
    "window hides stand as 0"
)


class Source(NamedTuple):
    """A finished study, one of its models, and the heads that are asked for."""

    folder: RunFolder
    variant: str
    heads: tuple[Head, ...]
    layers: tuple[int, ...]

    def contexts(self) -> int:
        return int(self.folder.manifest()["contexts"]["sets"][MAIN])

    def cell(self, context: int) -> dict[str, NDArray[Any]]:
        """What is stored of one context, as `AXES` says, without the context's axis."""
        stored = self.folder.read_arrays(f"rows/{self.variant}/{MAIN}/{context}")
        layers = [self.layers.index(head.layer) for head in self.heads]
        numbers = [head.head for head in self.heads]
        return {key: stored[key][:, layers, numbers] for key in AXES if key in stored}


def export_rows(
    run: Any,
    out: str | Path,
    *,
    format: str,
    heads: Sequence[Any] = (),
    variant: str = TRAINED,
    context: int | None = None,
    query: int | None = None,
    part: str | None = None,
    force: bool = False,
) -> Path:
    """Write stored rows of a study (a folder or a `Run`) for other tools, and give the file.

    `format`: "parquet" or "numpy" (rows), "bertviz" or "circuitsvis" (patterns of one prompt,
    JSON). `heads`: names as `L3H5`, `(3, 5)`, `L3`; all without. `variant`: the trained model or
    a twin. `context`, `query` (from 1, default 1) and `part` (default "all") choose the prompt and
    the tokens that a pattern is the mean over. Refuses a run that is not finished, what it does
    not hold, and without `force` a file that exists.
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    source = stored_source(Path(getattr(run, "path", run)), heads, variant=variant)
    if format in SHAPES:
        found = stored_patterns(source, context=context, query=query, part=part)
        return found.save(out, format=format, force=force)
    if (context, query, part) != (None, None, None):
        raise Refusal(f"a context, query or part is chosen for {', '.join(SHAPES)} only")
    path = new_file(out, force=force)
    write_whole(path, lambda stream: ROW_WRITERS[format](source, stream))
    return path


def stored_source(run: Path, heads: Sequence[Any], *, variant: str) -> Source:
    """The heads of a finished study; refuses one with cells missing, and a preset of several."""
    folders = study_folders(run)
    if len(folders) != 1 or folders[0].path != run:
        names = ", ".join(str(folder.path) for folder in folders)
        raise Refusal(f"needed one study, came a run of several: {names}", where=str(run))
    (folder,) = folders
    folder.read_results()
    variants = (TRAINED, *folder.manifest()["task"]["twins"])
    if variant not in variants:
        raise unknown_name("variant", variant, variants)
    grid = head_grid(folder)
    chosen = parse_heads(heads, grid) if heads else grid.all()
    source = Source(folder, variant, chosen, grid.layers)
    there = [folder.has(f"rows/{variant}/{MAIN}/{i}") for i in range(source.contexts())]
    if not all(there):
        raise Refusal(
            f"needed a finished run, came {sum(there)} of {len(there)} contexts of the {variant} "
            "model; the same `hatlens probe` command finishes it",
            where=str(run),
        )
    return source


def row_tables(source: Source) -> Iterator[pd.DataFrame]:
    """The rows of each context: one line a query, head, part and example."""
    for context in range(source.contexts()):
        cell = source.cell(context)
        queries, _, parts, examples = cell["score"].shape
        names = ["context", "query", "layer", "head", "part", "example"]
        shape = (queries, len(source.heads), parts, examples)
        query, chosen, part, example = (axis.ravel() for axis in np.indices(shape))
        layers, heads = (np.array(numbers) for numbers in zip(*source.heads, strict=True))
        columns = (context, query, layers[chosen], heads[chosen], np.array(PARTS)[part], example)
        values = {key: cell[key].ravel() for key in ("score", "weight") if key in cell}
        table = pd.DataFrame(values)
        for place, (name, column) in enumerate(zip(names, columns, strict=True)):
            table.insert(place, name, column)
        yield table


def write_parquet(source: Source, stream: IO[bytes]) -> None:
    """One tidy table; contexts, queries and examples count from 0, as in the table `answers`.

    Written context by context, so that memory does not grow with their number.
    """
    tables = (pa.Table.from_pandas(table, preserve_index=False) for table in row_tables(source))
    first = next(tables)
    with pq.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def write_numpy(source: Source, stream: IO[bytes]) -> None:
    """An .npz file: each array with its axes' names, and the names along the axes."""
    cells = [source.cell(context) for context in range(source.contexts())]
    arrays = {key: np.stack([cell[key] for cell in cells]) for key in cells[0]}
    axes = {f"{key}_axes": np.array(AXES[key]) for key in arrays}
    names = {"heads": np.array([str(head) for head in source.heads]), "parts": np.array(PARTS)}
    np.savez_compressed(stream, allow_pickle=False, **arrays, **axes, **names)


def stored_patterns(
    source: Source,
    *,
    context: int | None = None,
    query: int | None = None,
    part: str | None = None,
) -> Patterns:
    """One prompt's weights between its examples and its query (numbers from 1)."""
    context, query = 1 if context is None else context, 1 if query is None else query
    part = "all" if part is None else part
    if part not in PARTS:
        raise unknown_name("part", part, PARTS)
    _refuse_outside("context", context, source.contexts())
    cell = source.cell(context - 1)
    if "prefix_weight" not in cell:
        raise Refusal(
            "patterns need weights and rows of examples; the stored rows of this variant are "
            f"scores only, came {source.variant!r}",
            where=str(source.folder.path),
        )
    _refuse_outside("query", query, len(cell["weight"]))
    place = PARTS.index(part)
    of_examples, of_query = (
        np.moveaxis(cell[key][:, :, place], 1, 0) for key in ("prefix_weight", "weight")
    )
    count = of_examples.shape[-1]
    whole = np.full((len(source.heads), count + 1, count + 1), 0, dtype=np.float32)
    whole[:, :count, :count] = of_examples
    whole[:, count, :count] = of_query[:, query - 1]
    hidden = np.isnan(whole) & np.tri(count + 1, k=-1, dtype=np.bool_)
    if hidden.sum() == len(source.heads) * count * (count + 1) // 2:
        raise Refusal(f"no example has a stored weight of part {part!r} in this prompt")
    tokens = [f"example {number}" for number in range(1, count + 1)] + ["query"]
    note = NOTE.format(part=part, unseen=int(hidden.sum()))
    return Patterns(tokens, np.nan_to_num(whole, nan=0.0), source.heads, note)


def _refuse_outside(what: str, number: int, count: int) -> None:
    if number not in range(1, count + 1):
        raise Refusal(f"needed a {what} from 1 to {count}, came {number!r}")


ROW_WRITERS: Mapping[str, Callable[[Source, IO[bytes]], None]] = MappingProxyType(
    {"parquet": write_parquet, "numpy": write_numpy}
)
FORMATS = (*SHAPES, *ROW_WRITERS)
