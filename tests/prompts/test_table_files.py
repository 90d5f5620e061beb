import gzip
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prompts.refusal import Refusal
from prompts.tables import read_table
from tests.prompts.table_files import column, refused, written

BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    table = written(tmp_path, BOM + b'"dist","y"\n1.5,3\n2.5,5\n4.0,8\n')
    assert list(table.columns) == ["dist", "y"]
    assert column(table, "dist") == [1.5, 2.5, 4.0]
    lines = written(tmp_path, BOM + b'{"x":1,"y":2}\n', "t.jsonl")
    assert (list(lines.columns), len(lines.places)) == (["x", "y"], 1)
    tabs = "dist\ty\n1.5\t3\n".encode("utf-16")  # Excel's "Unicode text"
    assert column(written(tmp_path, tabs, "t.tsv"), "dist") == [1.5]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_blank_lines_and_quotes(tmp_path: Path, end: str) -> None:
    rows = ['a,"b,c"', "1,2", "", '"3","4"', ""]
    table = written(tmp_path, end.join(rows))
    assert list(table.columns) == ["a", "b,c"]
    assert_array_equal(table.numbers(["a", "b,c"]).values, [[1, 2], [3, 4]])
    assert table.places == ("line 2", "line 4")


def test_a_cell_over_two_lines_keeps_the_line_numbers(tmp_path: Path) -> None:
    table = written(tmp_path, 'text,y\n"two\nlines",1\nb,x\n')
    assert table.places == ("line 2", "line 4")
    assert refused(table, "y").where == "t.csv, line 4, column 'y'"


def test_other_separators_and_gzip(tmp_path: Path) -> None:
    assert column(written(tmp_path, "x;y\n1;2\n", separator=";"), "y") == [2]
    assert column(written(tmp_path, "x\ty\n1\t2\n", "t.tsv"), "y") == [2]
    assert column(written(tmp_path, gzip.compress(b"x,y\n1,2\n"), "t.csv.gz"), "y") == [2]
    assert column(written(tmp_path, gzip.compress(b'{"x": 3}\n'), "t.jsonl.gz"), "x") == [3]


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        ("x;y\n1;2\n", "t.csv", "cells look separated by ';', not ','"),
        ("x,y\n1,2,3\n", "t.csv", "line 2: 2 cells are needed, as in the header; came 3"),
        ("x,y\n1,2\n3\n", "t.csv", "line 3: 2 cells are needed"),
        ("x,x\n1,2\n", "t.csv", "'x' stands twice"),
        ("x,\n1,2\n", "t.csv", "column 2 has none"),
        ("1.5,2\n3,4\n", "t.csv", "a header of column names is needed; came 1.5, 2"),
        ("", "t.csv", "the file is empty"),
        ("x,y\n", "t.csv", "a table with rows is needed"),
        ('x,y\n"1,2\n', "t.csv", "line 2: the line cannot be read: unexpected end of data"),
        (b"x,y\n1,\xe9\n", "t.csv", "line 2: UTF-8 text is needed; came the byte 0xE9"),
        (b"x,y\n1,\x00\n", "t.csv", "line 2: text is needed; came a zero byte"),
        (b"\x1f\x8bx", "t.csv.gz", "a readable file is needed"),
        ("x,y\n1,2\n", "t.csv.gz", "a readable file is needed"),
        ("x,y\n1,2\n", "t.xlsx", "a table file is needed (.csv, .tsv, .jsonl"),
        ("PAR1", "t.parquet", "it is damaged"),
        ('{"x": 1}\n[1]\n', "t.jsonl", "line 2: one JSON object a line is needed; came '[1]'"),
        ('{"x": 1}\n{"x": \n', "t.jsonl", "line 2: one JSON object a line is needed"),
        ('{"x": 1, "x": 2}\n', "t.jsonl", "line 1: column names must differ; 'x' stands twice"),
        ('{"x": NaN}\n', "t.jsonl", "line 1: JSON is needed; came NaN"),
    ],
)
def test_what_is_no_table_is_refused(
    tmp_path: Path, data: bytes | str, name: str, sentence: str
) -> None:
    with pytest.raises(Refusal) as caught:
        written(tmp_path, data, name)
    assert sentence in str(caught.value)


def test_missing_files_and_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="not there or not a file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(Refusal, match="near names: diabetes"):
        read_table("diabtes")
    with pytest.raises(Refusal, match="a path or a DataFrame is needed; came list"):
        read_table(cast(Any, [1, 2]))
    with pytest.raises(Refusal, match="a separator is one character"):
        written(tmp_path, "x,y\n1,2\n", separator=", ")
    with pytest.raises(Refusal, match="unknown column 'wehn'; near names: when"):
        written(tmp_path, "when,y\n1,2\n", date_format={"wehn": "%Y"})


def test_tables_that_ship_with_scikit_learn() -> None:
    diabetes, linnerud = read_table("diabetes"), read_table("linnerud")
    assert (len(diabetes.places), len(diabetes.default_features)) == (442, 10)
    assert diabetes.default_target == "progression"
    assert_allclose(
        np.mean(column(diabetes, "progression")), 152.13, atol=0.01
    )  # scikit-learn's docs
    assert linnerud.default_features == ("Chins", "Situps", "Jumps")
    assert set(linnerud.columns) == {"Chins", "Situps", "Jumps", "Weight", "Waist", "Pulse"}
