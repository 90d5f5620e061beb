"""A vector in place of the demonstrations: whole runs on tiny models, and planted cells."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    verdict_of,
)
from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.study import run_similarity
from hatlens.comparison.task_vector import CONTROLS, RANDOM, right_logp, shuffled
from hatlens.comparison.task_vector_result import (
    vector_judged,
    vector_result,
    vector_table,
)
from hatlens.store import RunFolder
from prompts.tasks.task import Example
from tests.hatlens.comparison.tiny_task import SETTINGS

Run = tuple[Path, dict[str, Any]]
SMALL: dict[str, Any] = {**SETTINGS, "sets": 1, "twins": (), "queries": 16}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def run(
    request: pytest.FixtureRequest, task: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    out = tmp_path_factory.mktemp("run") / "run"
    model = str(request.getfixturevalue(request.param))
    values = {**SMALL, "model": model, "task": str(task), "vector_queries": 15}
    return out, run_similarity(build_similarity(values), out)


def cell_of(folder: Path) -> dict[str, Any]:
    return dict(RunFolder(folder).read_arrays("task-vector/trained/0-15"))


def test_everything_asked_for_is_in_the_result(run: Run) -> None:
    found = run[1]["task_vector"]
    assert found["queries"] == {"a": 5, "b": 10}
    assert set(found["runs"]) == {"zsl", "icl", "vector", *CONTROLS}
    assert all(len(values) == 2 for values in found["by_layer"].values())
    best = max(max(values) for values in found["by_layer"].values())
    assert found["by_layer"][found["way"]][found["layer"]] == best
    assert found["sentence"].endswith(".")
    assert 'id="vector"' in (run[0] / "report.html").read_text(encoding="utf-8")


def test_every_key_and_column_is_explained(run: Run) -> None:
    page = (Path(__file__).parents[3] / "docs" / "task-vector.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`([^`]+)`", page))
    tables = RunFolder(run[0]).read_tables()
    assert set(run[1]["task_vector"]) <= explained
    for name in ("task_vector", "task_vector_layers"):
        assert {name, *tables[name].columns} <= explained
    assert set(CONTROLS) <= explained


def test_the_tables_hold_both_splits(run: Run) -> None:
    tables, cell = RunFolder(run[0]).read_tables(), cell_of(run[0])
    assert tables["task_vector_layers"]["chosen"].sum() == 1
    of_query = tables["task_vector"].groupby("run").size().to_dict()
    assert of_query["vector"] == 10
    assert of_query[RANDOM] == 50
    assert set(tables["task_vector"]["query"]) == set(range(5, 15))
    row = tables["task_vector"].query("run == 'icl'").iloc[0]
    expected = cell["b/icl"][0] - np.logaddexp.reduce(cell["b/icl"][0])
    assert row["log_probability"] == pytest.approx(expected[cell["gold/b"][0]])


def test_runs_without_a_vector_are_those_of_the_comparison(run: Run) -> None:
    stored, cell = RunFolder(run[0]).read_arrays("cells/trained/0"), cell_of(run[0])
    for name in ("zsl", "icl"):
        both = np.concatenate([cell[f"a/{name}"], cell[f"b/{name}"]])
        np.testing.assert_allclose(both, stored[f"labels/{name}"][:15, :, 0], atol=1e-4)


def test_a_finished_run_takes_it_up_and_one_without_has_none(
    gpt2: str, task: Path, tmp_path: Path
) -> None:
    values = {**SMALL, "model": gpt2, "task": str(task)}
    assert run_similarity(build_similarity(values), tmp_path / "run")["task_vector"] is None
    with_it = build_similarity({**values, "vector_queries": 1})
    found = run_similarity(with_it, tmp_path / "run")["task_vector"]
    assert found["sentence"].startswith("Not assessable: 1 query is too few")
    assert 'id="vector"' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_numbers_are_judged_by_their_log_probability(gpt2: str, tmp_path: Path) -> None:
    values = {**SMALL, "model": gpt2, "task": "regression", "other_task": "regression"}
    config = build_similarity({**values, "vector_queries": 15})
    found = run_similarity(config, tmp_path / "run")["task_vector"]
    assert found["unit"] == "nats"
    assert found["runs"]["zsl"].estimate < 0


def planted(
    folder: Path, *, carries: str, numbers: bool = False
) -> tuple[SimilarityConfig, RunFolder]:
    """A cell in which ICL is right on 30 of 40 queries, ZSL on 10; the vector answers as one."""
    rng, gold = np.random.default_rng(0), np.arange(40) % 2

    def logp(right: int) -> Any:
        likely = np.where(np.arange(40) < right, 2.0, -2.0) + 0.1 * rng.normal(size=40)
        if numbers:
            return likely[:, None]
        return np.where(np.arange(2) == gold[:, None], 0.0, -likely[:, None])

    runs = {"zsl": logp(10), "icl": logp(30)}
    lengths = np.ones((40, 1 if numbers else 2), dtype=int)
    other = {
        "gold/a": gold * (not numbers),
        "gold/b": gold * (not numbers),
        "lengths/a": lengths,
        "lengths/b": lengths,
        "a/patched": np.stack([[runs["zsl"], runs[carries]]] * 2),
    }
    arrays = {f"{split}/{run}": values for split in "ab" for run, values in runs.items()}
    arrays |= {f"b/{name}": np.stack([logp(10)] * 2) for name in CONTROLS}
    arrays |= other | {"b/vector": runs[carries][None], "way": np.array("add")}
    arrays |= {"layer": np.array(1), "failed": np.array("")}
    store = RunFolder(folder)
    store.write_arrays("task-vector/trained/0-80", arrays)
    return build_similarity({"vector_queries": 80}), store


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize(("carries", "verdict"), [("icl", SUPPORTED), ("zsl", CONTRADICTED)])
def test_a_vector_that_carries_all_or_nothing_is_told(
    carries: str, verdict: str, numbers: bool, tmp_path: Path
) -> None:
    config, store = planted(tmp_path, carries=carries, numbers=numbers)
    found = vector_judged(config, store)
    assert verdict_of(found, found.p) == verdict
    result = vector_result(config, store)
    assert result is not None
    assert result["recovered"].estimate == pytest.approx(float(carries == "icl"), abs=0.02)
    assert ("beyond every control" in result["sentence"]) == (carries == "icl")
    shown = vector_table(config, store)["task_vector_layers"].query("chosen")
    assert shown["recovered"].item() == pytest.approx(float(carries == "icl"), abs=0.02)


@pytest.mark.parametrize("gone", sorted({*CONTROLS} - {RANDOM}))
def test_a_vector_is_not_claimed_on_without_every_control(gone: str, tmp_path: Path) -> None:
    config, store = planted(tmp_path, carries="icl")
    cell = dict(store.read_arrays("task-vector/trained/0-80"))
    del cell[f"b/{gone}"]
    store.write_arrays("task-vector/trained/0-80", cell)
    found = vector_judged(config, store)
    assert verdict_of(found, found.p) == NOT_DISTINGUISHABLE
    assert found.figures.endswith(f"{gone} could not be run as a control")
    result = vector_result(config, store)
    assert result is not None
    assert "beyond every control that was run" in result["sentence"]


def test_a_family_that_takes_no_vector_is_named(tmp_path: Path) -> None:
    store = RunFolder(tmp_path)
    said = "needed one stream of states, came GemmaLayer"
    store.write_arrays("task-vector/trained/0-8", {"failed": np.array(said)})
    config = build_similarity({"vector_queries": 8})
    result = vector_result(config, store)
    assert result is not None
    assert result["sentence"] == f"Not assessable: {said}."
    assert vector_table(config, store) == {}


def test_what_was_not_asked_for_is_not_assessable(tmp_path: Path) -> None:
    found = vector_judged(build_similarity({}), RunFolder(tmp_path))
    assert "--vector-queries" in found.reason
    assert verdict_of(found, found.p) == NOT_ASSESSABLE


def test_the_right_class_is_taken_among_the_classes() -> None:
    logp = np.log(np.array([[0.1, 0.3], [0.2, 0.2]]))
    np.testing.assert_allclose(np.exp(right_logp(logp, np.array([1, 0]))), [0.75, 0.5])
    np.testing.assert_allclose(np.exp(right_logp(logp[:, :1], np.array([0, 0]))), [0.1, 0.2])


def test_shuffled_labels_are_the_same_labels_dealt_anew() -> None:
    shown = [Example({"text": str(i)}, "ab"[i % 2], "") for i in range(8)]
    found = shuffled(shown, np.random.default_rng(0))
    assert len(found) == 3
    for dealt in found:
        assert [one.fields for one in dealt] == [one.fields for one in shown]
        assert sorted(one.label for one in dealt) == ["a"] * 4 + ["b"] * 4
        assert [one.label for one in dealt] != [one.label for one in shown]
    assert shuffled(shown[::2], np.random.default_rng(0)) == []
