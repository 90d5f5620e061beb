import decimal
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from prompts.refusal import Refusal
from prompts.table import Table
from prompts.tables import read_table
from tests.prompts.table_files import column, refused, written


def test_words_for_missing_are_words_in_a_text_column(tmp_path: Path) -> None:
    text = "text,label\nhot and dry,NA\ncold,NO\nwet,NA\nnone left,None\n"
    labels = written(tmp_path, text).text("label")
    assert labels == ("NA", "NO", "NA", "None")
    frame = pd.DataFrame({"label": ["null", "nan", ""]})
    assert read_table(frame).text("label") == ("null", "nan", "")


NUMERIC_TWIN = "x,y\n1,1\n-999,2\n?,3\n.,4\n,5\n"


def test_the_first_cell_that_is_no_number_is_refused_and_the_others_listed(tmp_path: Path) -> None:
    refusal = refused(written(tmp_path, NUMERIC_TWIN), "x", "y")
    assert refusal.where == "t.csv, line 4, column 'x'"
    assert refusal.sentence == (
        "a number is needed; came '?'; no numbers in this column: '?', '.', empty"
    )


def test_declared_missing_cells_take_their_rows_out(tmp_path: Path) -> None:
    table = written(tmp_path, NUMERIC_TWIN, missing=("?", ".", ""))
    numbers = table.numbers(["x", "y"])
    assert_array_equal(numbers.values, [[1, 1], [-999, 2]])
    assert numbers.places == ("line 2", "line 3")
    assert numbers.warnings == ("3 of 5 rows with a declared missing cell left out",)
    assert "came empty" in str(refused(written(tmp_path, NUMERIC_TWIN, missing=("?", ".")), "x"))
    table = written(tmp_path, NUMERIC_TWIN, missing=("?", ".", "", "-999.0"))
    # A text cell is met literally: -999.0 is not how this file writes it.
    assert column(table, "x") == [1, -999]


def test_a_declared_marker_is_met_by_value_in_a_typed_column() -> None:
    frame = pd.DataFrame({"x": [1.0, -999.0, np.nan], "y": [1, 2, 3]})
    assert column(read_table(frame, missing=("-999", "")), "x") == [1]
    with pytest.raises(Refusal, match="no row is left"):
        read_table(frame.iloc[1:], missing=("-999", "")).numbers(["x"])


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("\u22121.5", -1.5),
        (" 1.5 ", 1.5),
        ("+.5", 0.5),
        ("5.", 5),
        ("1e-06", 1e-6),
        ("1E+200", 1e200),
        ("007", 7),
        ("-0", 0),
        ("9223372036854775808", 2.0**63),
        ("0e-999", 0),
    ],
)
def test_cells_that_are_numbers(tmp_path: Path, cell: str, value: float) -> None:
    assert column(written(tmp_path, f"x,y\n{cell},1\n"), "x") == [value]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("nan", "came 'nan'"),
        ("inf", "came 'inf'"),
        ("-Infinity", "came '-Infinity'"),
        ("1_000", "came '1_000'"),
        ('"1,5"', "has a comma"),
        ('"1,234.5"', "came '1,234.5'"),
        ("0x10", "came '0x10'"),
        ("5%", "came '5%'"),
        ("1 000", "came '1 000'"),
        ("1.2.3", "came '1.2.3'"),
        ("\u20131.5", "holds U+2013"),
        ("\ufe631.5", "holds U+FE63"),
        ("1\u00a0000", "holds U+00A0"),
        ("\u0663", "holds U+0663"),
        ("\uff11.5", "holds U+FF11"),
        ("1.5\u200b", "holds U+200B"),
        ("1e999", "is too large for float64"),
        ("1e-400", "is too small for float64"),
        ("9223372036854775809", "float64 cannot hold exactly"),
        ("9" * 400, "is too large for float64"),
        ("True", "came 'True'"),
        ("", "came empty"),
        ("   ", "came empty"),
    ],
)
def test_cells_that_are_no_numbers(tmp_path: Path, cell: str, sentence: str) -> None:
    refusal = refused(written(tmp_path, f"x,y\n1,1\n{cell},1\n"), "x")
    assert sentence in refusal.sentence
    assert refusal.where == "t.csv, line 3, column 'x'"


def test_json_cells(tmp_path: Path) -> None:
    table = written(
        tmp_path, '{"x": 1, "b": true, "l": [1]}\n{"x": 1.50, "b": false, "s": "2"}\n', "t.jsonl"
    )
    assert column(table, "x") == [1, 1.5]
    assert column(table, "b") == [1, 0]
    assert table.text("x") == ("1", "1.50")
    assert refused(table, "s").where == "t.jsonl, line 1, column 's'"
    assert "came [1], which is a list; no numbers in this column: [1], empty" in str(
        refused(table, "l")
    )
    with pytest.raises(Refusal, match=r"text is needed; came \[1\]"):
        table.text("l")
    with pytest.raises(Refusal, match="text is needed; came empty"):
        table.text("s")
    huge = written(tmp_path, '{"x": 9007199254740993}\n', "t.jsonl")
    assert "float64 cannot hold exactly" in str(refused(huge, "x"))


def test_dates_are_no_features_without_a_format(tmp_path: Path) -> None:
    text = "when,y\n10/9/2016,1\n11/9/2016,2\n"
    refusal = refused(written(tmp_path, text), "when")
    assert refusal.sentence.startswith("when looks like a date ('10/9/2016')")
    assert refusal.where == "t.csv, line 2, column 'when'"
    for date_format, days_apart in (("%d/%m/%Y", 1), ("%m/%d/%Y", 31)):
        for given in (date_format, {"when": date_format}):
            table = written(tmp_path, text, date_format=given)
            first, second = column(table, "when")
            assert second - first == days_apart
            assert column(table, "y") == [1, 2]
    text = "d,month,zone\n1970-01-03,2016.09,1970-01-03T02:00+02:00\n"
    table = written(tmp_path, text, date_format="%Y-%m-%d")
    assert (column(table, "d"), column(table, "month")) == ([2], [2016.09])
    table = written(tmp_path, text, date_format={"zone": "%Y-%m-%dT%H:%M%z"})
    assert column(table, "zone") == [2]


@pytest.mark.parametrize(
    "cell",
    ["2016-09-30", "2016-09-30T12:00:00Z", "30.9.16", "12:30", "3 Sep 2016", "03-SEP-16"]
    + ["September 3, 2016", "2016-09", "9/30/2016 12:00 PM"],
)
def test_what_looks_like_a_date(tmp_path: Path, cell: str) -> None:
    assert "looks like a date" in str(refused(written(tmp_path, f'x,y\n"{cell}",1\n'), "x"))


def test_a_cell_that_breaks_the_date_format_is_named(tmp_path: Path) -> None:
    table = written(tmp_path, "when\n10/9/2016\n31/31/2016\n", date_format={"when": "%d/%m/%Y"})
    refusal = refused(table, "when")
    assert "came '31/31/2016', which is not a date of format '%d/%m/%Y'" in refusal.sentence
    assert refusal.where == "t.csv, line 3, column 'when'"


def test_integer_dates_are_warned(tmp_path: Path) -> None:
    text = "when,y\n20160930,1\n20161001,2\n"
    numbers = written(tmp_path, text).numbers(["when", "y"])
    assert len(numbers.warnings) == 1
    assert "when looks like a date written as an integer (20160930)" in numbers.warnings[0]
    for given in ("%Y%m%d", {"when": "%Y%m%d"}):
        first, second = column(written(tmp_path, text, date_format=given), "when")
        assert second - first == 1
    assert written(tmp_path, "x\n20169930\n").numbers(["x"]).warnings == ()


def test_typed_dates() -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(["2016-09-30", "2016-10-01"]), "y": [1, 2]})
    assert "looks like a date" in str(refused(read_table(frame), "d"))
    first, second = column(read_table(frame, date_format="%Y-%m-%d"), "d")
    assert second - first == 1
    frame = pd.DataFrame({"d": [date(1970, 1, 2), date(1970, 1, 4)]})
    assert column(read_table(frame, date_format={"d": "iso"}), "d") == [1, 3]


@pytest.fixture
def typed(tmp_path: Path) -> Table:
    columns = {
        "v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2)),
        "s": [{"a": 1}, {"a": 2}],
        "p": [decimal.Decimal("1.50"), decimal.Decimal("2.50")],
        "g": pa.array(["lo", "hi"]).dictionary_encode(),
        "b": [True, None],
        "u": pa.array([1, 2**63], pa.uint64()),
        "w": pa.array([1, 2**63 + 1], pa.uint64()),
        "t": pa.array([0, 1], pa.timestamp("s")),
        "n": [1.0, float("nan")],
        "x": pa.array([b"a", b"b"]),
        "y": [1.0, 2.0],
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return read_table(path)


@pytest.mark.parametrize(
    ("name", "sentence", "where"),
    [
        ("v", "came fixed_size_list<double>[2]", "t.parquet, column 'v'"),
        ("s", "came struct<a: int64>", "t.parquet, column 's'"),
        ("x", "came binary", "t.parquet, column 'x'"),
        ("g", "came 'lo' of type dictionary<", "t.parquet, row 1, column 'g'"),
        ("b", "came empty of type bool", "t.parquet, row 2, column 'b'"),
        ("w", "cannot hold exactly", "t.parquet, row 2, column 'w'"),
        ("t", "t looks like a date", "t.parquet, row 1, column 't'"),
        ("n", "came missing of type double", "t.parquet, row 2, column 'n'"),
    ],
)
def test_typed_columns_that_hold_no_numbers(
    typed: Table, name: str, sentence: str, where: str
) -> None:
    refusal = refused(typed, name)
    assert sentence in refusal.sentence
    assert refusal.where == where


def test_typed_columns_that_do(typed: Table) -> None:
    assert column(typed, "p") == [1.5, 2.5]
    assert typed.text("p") == ("1.50", "2.50")
    assert typed.text("g") == ("lo", "hi")
    assert column(typed, "u") == [1.0, 2.0**63]
    with pytest.raises(Refusal, match="text is needed; came empty"):
        typed.text("b")


def test_a_pandas_index_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": [1, 2], "y": [3, 4]}, index=[5, 7]).to_parquet(path)
    assert list(read_table(path).columns) == ["x", "y"]


def test_data_frames() -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int64"),
            "f": np.array([1.5, 2.5], dtype=np.float32),
            "c": pd.Categorical(["lo", "hi"]),
            "b": [True, False],
            "o": [1, "?"],
            7: [1, 2],
        }
    )
    table = read_table(frame)
    assert column(table, "f") == [1.5, 2.5]
    assert column(table, "b") == [1, 0]
    assert column(table, "7") == [1, 2]
    assert table.text("c") == ("lo", "hi")
    assert refused(table, "i").where == "DataFrame, row 2, column 'i'"
    assert "of type Int64" in refused(table, "i").sentence
    assert "came '?'" in refused(table, "o").sentence
    assert "came 'lo' of type category" in refused(table, "c").sentence
    with pytest.raises(Refusal, match="'x' stands twice"):
        read_table(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(Refusal, match="there are none"):
        read_table(pd.DataFrame({"x": []}))
