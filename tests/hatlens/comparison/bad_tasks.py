"""Data and task files that cannot be used, each with what is said of it and where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

TEMPLATE = "template: 'T: {text} L:'\n"
HEAD = TEMPLATE + "labels: [No, Yes]\n"
Row = dict[str, object]


class Bad(NamedTuple):
    """`file` is written and given as --task; `also`: further flags."""

    file: str
    content: bytes
    said: str
    where: str
    also: tuple[str, ...] = ()


def rows(count: int, *labels: str) -> list[Row]:
    """Texts that differ, with the labels in turn."""
    several = labels or ("Yes", "No")
    return [{"text": f"word {i}", "label": several[i % len(several)]} for i in range(count)]


def jsonl(items: list[Row]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in items).encode()


def with_row(**changed: object) -> bytes:
    """Ten good rows, a bad one in line 11, and ten more."""
    bad: Row = {"text": "a word", "label": "Yes", **changed}
    return jsonl([*rows(10), bad, *({**one, "text": f"{one['text']}, more"} for one in rows(10))])


def yaml(text: str, *, head: str = HEAD) -> bytes:
    return (head + text).encode()


GOOD = jsonl(rows(30))
BAD: dict[str, Bad] = {
    "a label that is not listed": Bad(
        "own.yaml", yaml("data: third.jsonl\n"), "unknown label 'Maybe'", "third.jsonl, line 3"
    ),
    "an empty text": Bad("d.jsonl", with_row(text=" "), "field 'text' is empty", "line 11"),
    "a text that is null": Bad("d.jsonl", with_row(text=None), "text is needed", "line 11"),
    "a list for a text": Bad("d.jsonl", with_row(text=["a"]), "came ['a']", "line 11"),
    "half a character": Bad("d.jsonl", with_row(text="a \ud800"), "U+D800", "line 11"),
    "an empty label": Bad("d.jsonl", with_row(label=""), "field 'label' is empty", "line 11"),
    "labels that differ by a blank": Bad(
        "d.jsonl", with_row(label="Yes "), "without blanks around it; came 'Yes '", "line 11"
    ),
    "a text longer than the window": Bad(
        "d.jsonl", with_row(text="good " * 300), "1,518 tokens long", "line 11"
    ),
    "a broken line": Bad("d.jsonl", GOOD + b'{"text": "a",\n', "one JSON object a line", "line 31"),
    "a line that is a list": Bad("d.jsonl", GOOD + b"[1, 2]\n", "came '[1, 2]'", "line 31"),
    "a key twice": Bad("d.jsonl", GOOD + b'{"text": "a", "text": "b"}\n', "twice", "line 31"),
    "a cell too many": Bad("d.csv", b"text,label\na,Yes\nb,No,c\n", "came 3", "line 3"),
    "bytes that are no UTF-8": Bad("d.csv", b"text,label\ncaf\xe9,b\n", "0xE9", "line 2"),
    "an empty file": Bad("d.csv", b"", "the file is empty", "d.csv"),
    "a header alone": Bad("d.csv", b"text,label\n", "rows is needed", "d.csv"),
    "no column of that name": Bad(
        "own.yaml", yaml("columns: {text: body}\ndata: good.jsonl\n"), "'body'", "good.jsonl"
    ),
    "no column for a field": Bad(
        "own.yaml",
        b"template: '{review}:'\nlabels: [No, Yes]\ndata: good.jsonl\n",
        "unknown column 'review'",
        "good.jsonl",
    ),
    "no data": Bad("own.yaml", yaml(""), "needs data", ""),
    "data that is not there": Bad("own.yaml", yaml("data: nosuch.csv\n"), "nosuch.csv", ""),
    "an unknown key": Bad(
        "own.yaml", yaml("split: test\ndata: good.jsonl\n"), "unknown key 'split'", "own.yaml"
    ),
    "a key of the task twice": Bad(
        "own.yaml", yaml("labels: [a]\n"), "'labels' stands twice", "own.yaml line 3"
    ),
    "an empty task file": Bad("own.yaml", b"", "'key: value' lines", "own.yaml"),
    "a template without a field": Bad(
        "own.yaml", b"template: 'T: L:'\nlabels: [No, Yes]\n", "needs a field", "own.yaml"
    ),
    "a template that prints the answer": Bad(
        "own.yaml", b"template: '{text} {label}:'\nlabels: [No, Yes]\n", "{label}", "own.yaml"
    ),
    "a template that reshapes a text": Bad(
        "own.yaml", b"template: '{text:>9}:'\nlabels: [No, Yes]\n", "{text:>9}", "own.yaml"
    ),
    "one word for two labels": Bad(
        "own.yaml", yaml("labels: {a: x, b: x}\n", head=TEMPLATE), "'x' stands twice", "own.yaml"
    ),
    "fewer examples than demonstrations": Bad(
        "d.jsonl", jsonl(rows(2)), "needed 3 training examples", "d.jsonl"
    ),
    "no example left to ask about": Bad(
        "d.jsonl", jsonl(rows(3)), "needed queries whose text is in no demonstration", "d.jsonl"
    ),
    "too few of a label for a balanced set": Bad(
        "d.jsonl",
        jsonl([*rows(20, "Yes"), {"text": "z", "label": "No"}]),
        "needed 2 examples of label 'No' for balanced demonstrations; came 1",
        "d.jsonl",
        ("--balanced", "--demos", "4"),
    ),
    "a label that leaves no room": Bad(
        "d.jsonl", jsonl(rows(30, "a " * 200 + "a", "b")), "no demonstration fits", "line"
    ),
    "a layer that is not there": Bad(
        "d.jsonl",
        GOOD,
        "needed one of the attention layers [0, 1], came 7",
        "gpt2",
        ("--ft", "value-layer", "--layer", "7"),
    ),
    **{
        f"a rate of {rate!r}": Bad("d.jsonl", GOOD, "'lr'", "", ("--lr", rate))
        for rate in ("nan", "inf", "-0.1", "fast", "")
    },
}

FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no train file": (
        lambda folder: (folder / "validation.csv").write_bytes(b"text,label\na,positive\n"),
        "needed train.csv",
    ),
    "no validation file": (
        lambda folder: (folder / "train.csv").write_bytes(b"text,label\na,positive\n"),
        "needed validation.csv",
    ),
    "nothing": (lambda folder: None, "came nothing"),
}
"""Folders that are given as --data, each with how it is filled and what is said."""
