"""A whole study on a tiny GPT-2: what it prints, resumes, repeats and refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hatlens as hl
from hatlens.cells import TRAINED
from hatlens.cli.app import app
from hatlens.cli.border import STOPPED, run_app
from hatlens.config import build_config
from hatlens.store import RunFolder
from hatlens.study import run_studies
from tests.hatlens.tiny_study import SETTINGS, flags


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "whole"
    run_studies([build_config({**SETTINGS, "model": str(model)})], out)
    return out


def refused(name: str) -> float:
    raise AssertionError(f"JSON holds {name}")


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """When each cell was written, and what it holds."""
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.glob("rows/**/*.npz"))
    }


def test_the_result_has_the_promised_keys_and_no_nan(run: Path) -> None:
    result = json.loads((run / "results.json").read_text(), parse_constant=refused)
    promised = {
        "model", "task", "parity", "behaviour", "row_test", "rows", "design", "twins",
        "agreement", "verdict", "cost",
    }  # fmt: skip
    assert promised <= set(result)
    assert result["parity"]["passed"] is True
    assert result["model"]["layers"] == 2
    assert (
        result["rows"]["tested"] + result["rows"]["blind"] == 2 * 3 * 4
    )  # layers, heads + sum, parts
    assert [twin["kind"] for twin in result["twins"]] == ["shuffled"]
    assert set(result["behaviour"]["error"]) >= {
        "model",
        "mean",
        "last",
        "nearest",
        "kernel",
        "ridge",
    }
    entry = result["row_test"][0]
    assert entry["hypothesis"] == "ols"
    assert set(entry["unique_over_explained"]) == {"estimate", "low", "high"}


def test_the_page_opens_with_the_verdict(run: Path) -> None:
    page = (run / "report.html").read_text()
    label = json.loads((run / "results.json").read_text())["verdict"]["label"]
    body = page[page.index("<body") :]
    assert label in body
    assert body.index(label) < body.index("<table")


def test_a_stopped_study_resumes_without_doing_a_cell_again(
    model: Path, run: Path, tmp_path: Path
) -> None:
    config = build_config({**SETTINGS, "model": str(model)})
    out = tmp_path / "stopped"

    def stop_half_way(stage: str, done: int, total: int) -> None:
        if stage.startswith("contexts") and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_studies([config], out, stop_half_way)
    first = snapshot(out)
    assert len(first) == 5
    run_studies([config], out)
    second = snapshot(out)
    assert {name: second[name] for name in first} == first
    for name, table in hl.read_run(run).tables.items():
        pd.testing.assert_frame_equal(hl.read_run(out).tables[name], table)


def test_a_finished_study_is_not_run_again(run: Path, model: Path) -> None:
    before = snapshot(run)
    run_studies([build_config({**SETTINGS, "model": str(model)})], run)
    assert snapshot(run) == before


def test_analysis_needs_no_model(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "tables")
    assert run_app(app, ["analyse", str(copy)]) == 0
    for name, table in hl.read_run(run).tables.items():
        pd.testing.assert_frame_equal(hl.read_run(copy).tables[name], table)
    (copy / "report.html").unlink()
    assert run_app(app, ["report", str(copy)]) == 0
    assert (copy / "report.html").is_file()


def test_stored_rows_have_named_axes(run: Path) -> None:
    rows = hl.read_run(run).rows()
    assert dict(rows.sizes) == {
        "context": 8, "query": 3, "layer": 2, "head": 2, "part": 4, "example": 7, "place": 7,
    }  # fmt: skip
    assert set(rows) == {"score", "weight", "prefix_score", "prefix_weight"}
    assert set(rows.coords) == set(rows.sizes)
    assert rows["layer"].values.tolist() == [0, 1]
    assert rows["example"].values.tolist() == [0, 1, 2, 3, 4, 5, 6]
    own = rows["prefix_score"].isel(place=3)
    assert np.isfinite(own.isel(example=slice(0, 3))).all()
    assert np.isnan(own.isel(example=slice(3, 7))).all()
    assert set(hl.read_run(run).rows("shuffled")) == {"score"}


def test_a_twin_is_added_to_stored_rows(run: Path, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    before = snapshot(copy)
    changed = {**SETTINGS, "model": str(model), "twins": ("shuffled", "nothing-kept")}
    result = run_studies([build_config(changed)], copy)
    after = snapshot(copy)
    assert {name: after[name] for name in before} == before
    assert [twin["kind"] for twin in result["twins"]] == ["shuffled", "nothing-kept"]


def test_twins_run_the_main_contexts_and_more_only_where_asked(
    run: Path, model: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert {file.name for file in (copy / "rows" / "shuffled").iterdir()} == {"main"}
    changed = {**SETTINGS, "model": str(model), "twins_in_full": True}
    run_studies([build_config(changed)], copy)
    found = {file.name for file in (copy / "rows" / "shuffled").iterdir()}
    assert found == {"main", "replicate", "pairs-a"}


def favours_the_first(contexts: hl.ContextArrays) -> Any:
    """Weight falls with the place, more for larger queries."""
    size = np.abs(contexts.queries).sum(axis=2)
    return -size[:, :, None] * np.arange(contexts.x.shape[1])


def test_an_own_hypothesis_joins_the_table_and_the_correction(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    one = hl.analyse(copy, hypotheses=[favours_the_first])
    table = one.tables["row_test"]
    assert set(table["hypothesis"]) == {"ols", "favours_the_first"}
    assert "favours_the_first" in (copy / "report.html").read_text()
    assert hl.analyse(copy).result["own_hypotheses"] == []
    alone = hl.read_run(run).tables["row_test"]["p_corrected"]
    joined = table[table["hypothesis"] == "ols"]["p_corrected"].reset_index(drop=True)
    assert (joined >= alone - 1e-12)[alone.notna()].all()


def test_a_hypothesis_from_a_file(run: Path, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n\ndef mine(c):\n    return c.queries[:, :, :1] * c.x[:, None, :, 0]\n"
    )
    words = ["probe", str(model), "--out", str(copy), *flags(), "--hypothesis"]
    assert run_app(app, [*words, f"{file}:mine"]) == 0
    assert set(hl.read_run(copy).tables["row_test"]["hypothesis"]) == {"mine"}


def test_the_command_prints_one_json_object(
    model: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_app(app, ["probe", str(model), "--out", str(out), *flags(), "--json"]) == 0
    printed, log = capsys.readouterr()
    result = json.loads(printed, parse_constant=refused)
    assert result["run"] == str(out)
    assert "\r" not in log
    assert 1 <= len(log.splitlines()) < 20
    stored = json.loads((run / "results.json").read_text())
    assert result["row_test"] == stored["row_test"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"twins": ("shuffle",)}, "shuffled"),
        ({"layout": "lines"}, "line"),
        ({"codec": "unsigned"}, "unsigned-decimal"),
        ({"hypothesis": "olx"}, "ols"),
        ({"hypothesis": "kernel_left_out"}, "with a row"),
        ({"function": "linaer"}, "linear"),
        ({"examples": 30}, "context window"),
        ({"condition": 0.1}, "condition"),
        ({"layout": "x=({x1},{x2}) y={y}", "codec": "decimal"}, "piece"),
    ],
)
def test_what_cannot_be_run_is_refused_and_leaves_nothing(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, Any],
    sentence: str,
) -> None:
    out = tmp_path / "out"
    status = run_app(app, ["probe", str(model), "--out", str(out), *flags(**changed), "--json"])
    printed, log = capsys.readouterr()
    assert status == 1
    assert sentence in json.loads(printed)["error"]["sentence"]
    assert log.splitlines()[-1].startswith("hatlens: ")
    assert not out.exists()


def test_an_unknown_model_says_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_app(app, ["probe", "smollm2-135", "--out", str(out)]) == 1
    assert "smollm2-135m" in capsys.readouterr().err
    assert not out.exists()


def test_another_study_in_the_folder_is_refused_and_stays(
    run: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "manifest.json").read_bytes()
    assert run_app(app, ["probe", str(model), "--out", str(run), *flags(seed=4)]) == 1
    assert "another study" in capsys.readouterr().err
    assert (run / "manifest.json").read_bytes() == before


def test_one_feature_ends_in_not_assessable_and_exit_zero(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = flags(features=1, twins="none", contexts=6)
    assert run_app(app, ["probe", str(model), "--out", str(out), *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"]["label"] == "not assessable"
    assert "one feature" in result["verdict"]["sentence"]


def test_a_table_runs_as_a_study(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, -2.0]})
    table.to_csv(tmp_path / "table.csv", index=False)
    run = hl.probe(
        str(model),
        out=tmp_path / "out",
        data=str(tmp_path / "table.csv"),
        target="y",
        **{key: value for key, value in SETTINGS.items() if key not in ("features", "condition")},
    )
    assert run.result["task"]["data"].endswith("table.csv")
    assert run.result["manifest"]["contexts"]["feature_names"] == ["a", "b"]
    assert TRAINED in set(run.tables["row_test"]["variant"])


def test_a_settings_file_does_the_same_as_flags(model: Path, run: Path, tmp_path: Path) -> None:
    import yaml

    stored = RunFolder(run).manifest()["task"]
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump({k: v for k, v in stored.items() if v is not None}))
    out = tmp_path / "out"
    assert run_app(app, ["probe", "--config", str(file), "--out", str(out)]) == 0
    assert RunFolder(out).manifest()["task"] == stored


def test_stopping_the_command_says_that_it_resumes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hatlens.cells.context_rows", interrupted)
    status = run_app(app, ["probe", str(model), "--out", str(tmp_path / "out"), *flags()])
    assert status == STOPPED
    assert "resumes" in capsys.readouterr().err


def test_a_preset_is_several_studies_on_one_page(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {key: value for key, value in SETTINGS.items() if key != "features"}
    both = {"one": {"features": 1, "twins": (), "pairs": 0}, "two": {"features": 2, "pairs": 6}}
    monkeypatch.setattr("hatlens.presets.PRESETS", {"small": both})
    out = tmp_path / "out"
    words = ["probe", str(model), "--preset", "small", "--out", str(out), "--json"]
    words += [
        word
        for key, value in small.items()
        if key not in ("twins", "pairs")
        for word in (f"--{key}", str(value))
    ]
    assert run_app(app, words) == 0
    result = json.loads(capsys.readouterr().out, parse_constant=refused)
    assert [study["task"]["features"] for study in result["studies"]] == [1, 2]
    assert result["run"] == str(out)
    with pytest.raises(hl.Refusal, match="preset of several: one, two"):
        hl.read_run(out)
    assert hl.read_run(out / "two").label == result["studies"][1]["verdict"]["label"]
    page = (out / "report.html").read_text()
    assert page.count("<h2") >= 2
    assert run_app(app, [*words, "--twins", "none"]) == 0  # free to change on stored rows
    assert run_app(app, [*words, "--seed", "9"]) == 1
    assert "another study" in capsys.readouterr().err
