"""Causes in a study: which heads are changed, what is stored, and what is said of it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from hatlens import measure as measuring
from hatlens.config import build_config
from hatlens.measure import load_configured, tokenize_sets
from hatlens.progress import silent
from hatlens.sets import MAIN, draw_sets
from hatlens.stages import Bench
from hatlens.stages.cause_answers import answer_reader
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from hatlens.study import analyse_run, run_studies
from probes.cause import cause
from probes.contribution import contributions
from prompts.refusal import Refusal
from tests.hatlens.tiny_study import SETTINGS

CHANGED: dict[str, Any] = {**SETTINGS, "pairs": 0, "twins": (), "behavioural_row": 6, "mass": 0.9}
CAUSES: dict[str, Any] = {"cause": True, "cause_contexts": 7, "random_sets": 3}


def probe(out: Path, model: Path, **settings: Any) -> dict[str, Any]:
    return run_studies([build_config({**CHANGED, "model": str(model), **settings})], out)


def cells(out: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in out.rglob("*.npz")}


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study to which causes were added."""
    out = tmp_path_factory.mktemp("run") / "study"
    assert "cause" not in probe(out, model)
    before = cells(out)
    probe(out, model, **CAUSES)
    after = cells(out)
    assert {file: after[file] for file in before if "contexts" not in file.parts} == {
        file: time for file, time in before.items() if "contexts" not in file.parts
    }
    assert {file.relative_to(out).parts[0] for file in set(after) - set(before)} == {
        "cause",
        "contributions",
    }
    return out


def result(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


def bench(out: Path, model: Path) -> Bench:
    config = build_config({**CHANGED, "model": str(model), **CAUSES})
    study = draw_sets(config)
    loaded = load_configured(config, silent)
    return Bench(config, study, loaded, tokenize_sets(config, study, loaded), RunFolder(out))


def test_without_a_named_head_the_best_row_is_changed_as_description(run: Path) -> None:
    found = result(run)["cause"]
    rows = pd.read_parquet(run / "tables" / "row_test.parquet")
    merit = "alone" if (rows["says"] == "not assessable").all() else "t"
    best = rows.loc[rows[merit].where(rows["head"] >= 0).idxmax()]
    assert found["heads"] == [f"L{best['layer']}H{best['head']}"]
    assert not found["named"]
    words = "that the hypothesis alone explains" if merit == "alone" else "of largest T"
    assert re.search(rf"{words}.*, as description: ", found["sentence"])


def test_answers_are_those_of_the_model_with_heads_changed(run: Path, model: Path) -> None:
    own, found = bench(run, model), result(run)["cause"]
    again = cause(
        own.loaded,
        own.tokens[MAIN][:7],
        found["heads"],
        answer_reader(own),
        rng=np.random.default_rng([own.config.seed, 22]),
        draws=3,
    )
    targets = np.stack([one.targets for one in own.study.sets[MAIN].contexts[:7]])
    base = np.abs(again.of("base") - targets).mean()
    half = own.study.sets[MAIN].half_range[-1]
    assert_allclose(found["error"]["estimate"], base / half)
    table = pd.read_parquet(run / "tables" / "cause.parquet")
    for effect in found["effects"]:
        change = np.abs(again.of(effect["kind"]) - targets).mean() - base
        assert_allclose(effect["change"]["estimate"], change / half, atol=1e-12)
        named = table[(table["kind"] == effect["kind"]) & (table["draw"] == "named")]
        assert_allclose(named["change"], change, atol=1e-9)
    # The other head of the layer is the only other set.
    assert found["sets"] == 1
    assert "1 different sets of other heads where 3 were asked" in found["short"]


def test_the_row_before_is_the_unchanged_model_s(run: Path) -> None:
    """The behavioural row of the larger size in the main order."""
    folder = RunFolder(run)
    (name,) = {file.parent.parent.name for file in run.glob("cause/*/row/*")}
    stored = folder.read_arrays(f"cause/{name}/row/2-queries/3")
    plain = folder.read_arrays("behavioural_row/main/2-queries/3")
    assert stored["size"] == plain["sizes"][-1]
    assert stored["plus"].shape == (2, *plain["plus"].shape[2:])
    assert np.abs(stored["plus"][0] - plain["plus"][-1, 0]).max() > 1e-3
    row = result(run)["cause"]["row"]
    assert row["units"] == 6
    assert "share of the behavioural row goes from" in result(run)["cause"]["sentence"]


def test_contributions_are_those_of_the_model(run: Path, model: Path) -> None:
    own, folder = bench(run, model), RunFolder(run)
    direction = folder.read_arrays("contributions/exact-7/direction")
    along = direction["along"]
    stored = folder.read_arrays("contributions/exact-7/4")["rows"]
    again = contributions(own.loaded, own.tokens[MAIN][4], along[4])
    assert_allclose(stored, again.rows, rtol=1e-4, atol=1e-6)
    table = pd.read_parquet(run / "tables" / "contributions.parquet")
    assert len(table) == 2 * 3 * 4
    found = result(run)["contributions"]
    assert found["direction"] == str(direction["kind"])
    assert [one["why"] for one in found["heads"]] == [
        "changed",
        "the head whose contributions the hypothesis alone explains best, as description",
    ]
    assert "mass is negative" in found["sentence"]
    drawn = pd.read_parquet(run / "tables" / "contribution_rows.parquet")
    first = found["heads"][0]
    places = drawn[["layer", "head", "part"]] == [first[n] for n in ("layer", "head", "part")]
    assert (drawn["context"][places.all(axis=1)] == 4).sum() == 3 * 7


def test_nothing_is_run_again(run: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, said = cells(run), result(run)["cause"]
    monkeypatch.setattr(measuring, "load_model", None)
    probe(run, model, **CAUSES)
    analyse_run(run)
    assert cells(run) == before
    assert result(run)["cause"] == said


def test_a_lost_cell_is_run_again(run: Path, model: Path) -> None:
    (lost,) = run.glob("cause/*/row/2-queries/5.npz")
    with np.load(lost) as stored:
        plus = stored["plus"]
    lost.unlink()
    said = result(run)["cause"]
    probe(run, model, **CAUSES)
    with np.load(lost) as stored:
        assert_allclose(stored["plus"], plus, atol=1e-5)
    assert result(run)["cause"]["label"] == said["label"]


def test_own_heads_are_other_cells(run: Path, model: Path) -> None:
    before = set(cells(run))
    probe(run, model, **CAUSES, heads=["(0, 1)", "blocks.1.attn.hook_z[0]"])
    found = result(run)["cause"]
    assert found["heads"] == ["L0H1", "L1H0"]
    assert found["own"]
    assert "given with the settings" in found["sentence"]
    assert {file.relative_to(run).parts[0] for file in set(cells(run)) - before} == {"cause"}
    probe(run, model, **CAUSES)


@pytest.mark.parametrize(
    ("heads", "words"),
    [(["L0H7"], "needed a head from 0 to 1"), (["L1X1"], "near names: L1H1"), (["L5"], "layer 5")],
)
def test_unknown_heads_are_refused_and_leave_the_run_as_it_was(
    run: Path, model: Path, tmp_path: Path, heads: list[str], words: str
) -> None:
    before = (run / "manifest.json").read_text()
    for folder in (run, tmp_path / "new"):
        with pytest.raises(Refusal, match=words):
            probe(folder, model, **CAUSES, heads=heads)
    assert (run / "manifest.json").read_text() == before
    assert not (tmp_path / "new").exists()


def test_heads_without_causes_are_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(Refusal, match="'heads' says which heads `cause` changes"):
        probe(tmp_path / "new", model, heads=["L0H0"])


def test_before_the_heads_are_changed_the_result_says_so(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "cause")
    analyse_run(copy)
    found = result(copy)["cause"]
    assert found["label"].startswith("not assessable: not measured yet")
    assert "cause-errors" not in (copy / "report.html").read_text()


def test_the_page_has_both_parts(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert 'id="study-1-cause"' in page
    assert 'id="study-1-contributions"' in page
    assert "Random sets that do as much" in page
    assert "random heads, a dot a set" in page


def test_printed_answers_serve_where_none_are_read(tmp_path: Path, model: Path) -> None:
    out = tmp_path / "greedy"
    settings = {**CAUSES, "behavioural_row": 0, "reading": "greedy", "heads": ["L0H1"]}
    found = probe(out, model, **settings)["cause"]
    assert found["row"] is None
    assert found["contexts"] == 7
    assert (out / "contributions" / "greedy-7" / "direction.npz").is_file()


def test_one_context_is_too_few(tmp_path: Path, model: Path) -> None:
    found = probe(tmp_path / "one", model, **CAUSES, contexts=1, behavioural_row=0)
    assert "at least 2 are needed" in found["cause"]["label"]
    assert found["contributions"]["direction"] == "digits of the unembedding"


def test_a_family_that_cannot_be_read_is_said(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise Refusal("needed heads that give their weights times their values; in the family 'x'")

    monkeypatch.setattr("hatlens.stages.contributions.attention_routes", refused)
    found = probe(tmp_path / "refused", model, **CAUSES, behavioural_row=0)
    assert "in the family 'x'" in found["contributions"]["refused"]
    assert "was not measured" in found["contributions"]["sentence"]
    assert found["cause"]["contexts"] == 7
    assert 'id="study-1-contributions"' in (tmp_path / "refused" / "report.html").read_text()


def test_heads_of_a_model_that_regresses(tmp_path: Path) -> None:
    """Without all its heads at the answer position the built-in model knows no example.

    Its error becomes that of a constant, and nothing of its behavioural row is least squares.
    """
    settings = {
        "model": "text-regressor",
        "contexts": 8,
        "twins": (),
        "behavioural_row": 6,
        "mass": 0.9,
    }
    more = {"cause": True, "heads": ["L0", "L1", "L2", "L3"], "flips": 200, "queries": 4}
    found = run_studies([build_config({**settings, **more})], tmp_path / "run")
    said = found["cause"]
    assert said["label"].startswith("not assessable: there are no random heads")
    assert "As description, the error changes by +" in said["sentence"]
    for effect in said["effects"]:
        assert effect["change"]["low"] > 3 * said["error"]["estimate"]
    assert found["contributions"]["direction"] == "ridge read-out"
    assert found["contributions"]["readout_explains"]["low"] > 0.5
    assert said["row"]["share_before"]["estimate"] > 0.5
    assert said["row"]["share_after"]["estimate"] < 0.2
    assert head_grid(RunFolder(tmp_path / "run")).heads * 4 == len(said["heads"])
