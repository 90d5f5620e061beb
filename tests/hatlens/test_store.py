"""A run folder holds whole files only, one study only, and JSON without NaN."""

import json
import math
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pandas as pd
import pytest

from hatlens.store import RunFolder, json_text, write_whole
from prompts.refusal import Refusal


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "cell.npz", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("a.txt", "whole")

    def fail(stream: IO[bytes]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.txt", fail)
    assert (tmp_path / "a.txt").read_text() == "whole"


def test_a_file_is_as_readable_as_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    RunFolder(tmp_path).write_text("a.txt", "whole")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


class Interval(NamedTuple):
    estimate: float
    low: float
    high: float


def test_json_has_null_where_a_number_is_undefined() -> None:
    text = json_text({"a": Interval(1.0, math.nan, math.inf), "b": np.array([np.nan, 2.0])})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    parsed = json.loads(text, parse_constant=refuse)
    assert parsed == {"a": {"estimate": 1.0, "low": None, "high": None}, "b": [None, 2.0]}


def test_the_same_study_is_taken_up_again_and_another_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open({"seed": 1, "twins": ("a",)})
    folder.open({"seed": 1, "twins": ("a",)})
    with pytest.raises(Refusal, match=r"another study.*seed"):
        folder.open({"seed": 2, "twins": ("a",)})


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(Refusal, match="other files"):
        RunFolder(tmp_path).open({})
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    with pytest.raises(Refusal, match="which is none or is read-only"):
        RunFolder(tmp_path / "run").open({})


def test_arrays_and_tables_come_back_as_they_were(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_arrays("rows/a/0", {"score": np.arange(4.0), "text": np.array(["1", "x"])})
    assert folder.has("rows/a/0")
    assert not folder.has("rows/a/1")
    stored = folder.read_arrays("rows/a/0")
    np.testing.assert_array_equal(stored["score"], np.arange(4.0))
    assert stored["text"].tolist() == ["1", "x"]
    folder.write_table("t", pd.DataFrame({"a": [1.5]}))
    assert folder.read_tables()["t"]["a"].tolist() == [1.5]


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    (tmp_path / "cell.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(Refusal, match=r"cell\.npz.*cannot be read"):
        RunFolder(tmp_path).read_arrays("cell")


def test_damaged_results_and_tables_are_named_with_the_way_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "results.json").write_text('{"a": ')
    with pytest.raises(Refusal, match=r"results\.json.*damaged.*hatlens analyse"):
        folder.read_results()
    with pytest.raises(Refusal, match=r"tables.*found none.*hatlens analyse"):
        folder.read_tables()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "answers.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(Refusal, match=r"answers\.parquet.*damaged.*hatlens analyse"):
        folder.read_tables()


def test_a_place_below_a_file_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refusal, match="needed a folder to write to"):
        RunFolder(tmp_path / "file" / "run").refuse_place()


def test_an_unfinished_run_says_what_finishes_it(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="hatlens analyse"):
        RunFolder(tmp_path).read_results()
    with pytest.raises(Refusal, match="found none; the same command again makes it"):
        RunFolder(tmp_path).read_arrays("cell")


def test_the_folder_of_another_command_is_refused(tmp_path: Path) -> None:
    study, comparison = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    study.update_manifest(task={})
    comparison.update_manifest(task={}, kind="similarity")
    study.refuse_other_kind(None)
    comparison.refuse_other_kind("similarity")
    RunFolder(tmp_path / "new").refuse_other_kind("similarity")
    for folder, kind in ((study, "similarity"), (comparison, None)):
        with pytest.raises(Refusal, match="a run of another command"):
            folder.refuse_other_kind(kind)
