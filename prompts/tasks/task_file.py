"""A user's own task: a small YAML file, or just a data file with text and label."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prompts.refusal import Refusal, unknown_name
from prompts.tasks.sources import looks_like_file
from prompts.tasks.task import TASKS, Task, same_words
from prompts.yaml_file import read_yaml

KEYS = ("name", "template", "labels", "separator", "columns", "data")
DEFAULT_TEMPLATE = "Input: {text} Label:"


def task_named(name: str) -> Task:
    """A published task by name, a user's own from a YAML file, or the default one for a data file.

    A YAML file holds ``template`` and ``labels`` (a list of words, or a mapping from label to
    word), and may hold ``name``, ``separator``, ``columns`` (field: column; ``label: column``) and
    ``data`` (a path beside the file, or a Hugging Face dataset id). Unknown keys are refused.
    """
    if name in TASKS:
        return TASKS[name]
    path = Path(name)
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_task(path)
    if path.exists():
        return Task(path.stem, DEFAULT_TEMPLATE, {}, source=name)
    raise Refusal(
        unknown_name("task", name, TASKS).sentence
        + "; a YAML file, a data file or a folder is a task too"
    )


def read_task(path: Path) -> Task:
    """The task in a YAML file."""
    values, where = read_yaml(path, what="a task"), str(path)
    for key in values:
        if key not in KEYS:
            raise Refusal(unknown_name("key", key, KEYS).sentence, where=where)
    for key in ("template", "labels"):
        if key not in values:
            raise Refusal(f"a task file needs {key!r}; came {', '.join(values)}", where=where)
    columns = _mapping(values.get("columns", {}), "columns", where)
    try:
        task = Task(
            name=_text(values.get("name", path.stem), "name", where),
            template=_text(values["template"], "template", where),
            words=_words(values["labels"], where),
            separator=_text(values.get("separator", " "), "separator", where),
            columns=columns,
            source=_source(_text(values.get("data", ""), "data", where), path),
        )
    except Refusal as refusal:
        raise Refusal(refusal.sentence, where=where) from None
    for key in columns:
        if key not in (*task.fields, "label"):
            known = unknown_name("field", key, (*task.fields, "label"))
            raise Refusal(known.sentence, where=f"{where}, columns")
    return task


def _source(data: str, path: Path) -> str:
    """A path is meant beside the task file; anything else is a dataset id."""
    beside = path.parent / data
    return str(beside) if data and (beside.exists() or looks_like_file(data)) else data


def _words(labels: Any, where: str) -> dict[str, str]:
    if isinstance(labels, list):
        texts = [_text(label, "labels", where) for label in labels]
        if twice := [text for text in dict.fromkeys(texts) if texts.count(text) > 1]:
            raise Refusal(f"labels must differ; {twice[0]!r} stands twice", where=where)
        return same_words(texts)
    return _mapping(labels, "labels", where)


def _mapping(value: Any, key: str, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Refusal(f"{key!r} needs 'name: text' lines; came {value!r}", where=where)
    return {name: _text(text, key, where) for name, text in value.items()}


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str):
        raise Refusal(f"{key!r} needs one text; came {value!r}", where=where)
    return value
