"""Examples from files, folders, a package and datasets; labels are literal text."""

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from prompts.refusal import Refusal
from prompts.tasks.sources import read_examples
from prompts.tasks.task import TASKS, Task
from prompts.tasks.task_file import task_named


def file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_missing_markers_are_labels_like_any_other(tmp_path: Path) -> None:
    path = file(tmp_path, "c7.csv", "text,label\nhot and dry,NA\ncold,NO\nwet,NA\nnone left,None\n")
    found = read_examples(task_named(path))
    assert Counter(one.label for one in found.train) == {"NA": 2, "NO": 1, "None": 1}
    assert list(found.task.words) == ["NA", "NO", "None"]
    assert found.validation == ()


def test_a_folder_has_two_parts_of_any_kind(tmp_path: Path) -> None:
    file(tmp_path, "train.jsonl", '{"text": "a", "label": "positive"}\n')
    file(tmp_path, "validation.csv", "text,label\nb,negative\n")
    found = read_examples(TASKS["mr"], str(tmp_path))
    assert [one.fields["text"] for one in (*found.train, *found.validation)] == ["a", "b"]
    assert found.validation[0].place == "validation.csv, line 2"


def test_columns_can_be_mapped(tmp_path: Path) -> None:
    path = file(tmp_path, "d.tsv", "review\tscore\nfine\t1\n")
    task = Task("own", "{text} ->", {"1": "good"}, columns={"text": "review", "label": "score"})
    (one,) = read_examples(task, path).train
    assert (one.fields, one.label) == ({"text": "fine"}, "1")


@pytest.mark.parametrize(
    ("text", "said", "where"),
    [
        ("text,label\na,positive\n ,negative\n", "'text' is empty", "line 3"),
        ("text,label\na,positive\nb,good\n", "unknown label 'good'", "line 3"),
        ("txt,label\na,positive\n", "unknown column 'text'", "d.csv"),
    ],
)
def test_a_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str, where: str) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        read_examples(TASKS["mr"], file(tmp_path, "d.csv", text))
    assert where in refused.value.where


def test_a_folder_without_a_part_says_what_it_holds(tmp_path: Path) -> None:
    file(tmp_path, "train.csv", "text,label\na,positive\n")
    file(tmp_path, "test.csv", "text,label\na,positive\n")
    with pytest.raises(Refusal, match=r"needed validation\.csv.*came test\.csv, train\.csv"):
        read_examples(TASKS["mr"], str(tmp_path))


def test_only_mr_comes_without_data() -> None:
    with pytest.raises(Refusal, match="'cb' needs data"):
        read_examples(TASKS["cb"])
    found = read_examples(TASKS["mr"])
    # The MR training part: 8,530 rows, half of them positive (cs/0506075).
    assert Counter(one.label for one in found.train) == {"positive": 4265, "negative": 4265}


class Split:
    """What is used of a split of the `datasets` package."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)
        names = ModuleType("feature")
        names.names = ["negative", "positive"]  # type: ignore[attr-defined]
        self.features = {key: names if key == "label" else None for key in columns}

    def __getitem__(self, key: str) -> list[Any]:
        return self.columns[key]

    def __len__(self) -> int:
        return len(self.columns["text"])


def test_a_dataset_of_the_hub_gives_its_class_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, config: str | None) -> dict[str, Split]:
        asked.append((name, config))
        return {"train": Split(text=["a", "b"], label=[1, 0]), "test": Split(text=["c"], label=[1])}

    stub = ModuleType("datasets")
    stub.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", stub)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = read_examples(TASKS["sst2"], "glue/like:sst2")
    assert asked == [("glue/like", "sst2")]
    assert [one.label for one in found.train] == ["positive", "negative"]
    assert [one.fields["text"] for one in found.validation] == ["c"]


def test_a_dataset_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("datasets")

    def load_dataset(name: str, config: str | None) -> None:
        raise OSError("no such dataset\nmore")

    stub.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", stub)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(Refusal, match=r"cannot be loaded: no such dataset$") as refused:
        read_examples(TASKS["sst2"], "me/nothing")
    assert refused.value.where == "me/nothing"
