"""`--behavioural-row`: stored for sizes and orders, resumed, and a planted smoother is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.bank import BANK, predict
from hatlens.config import build_config
from hatlens.measure import load_configured, tokenize_sets
from hatlens.progress import silent
from hatlens.sets import CONTROL_SETS, MAIN, draw_sets, stored_form
from hatlens.stages import Bench, behavioural_row
from hatlens.stages.behavioural_row import measured, sizes_of, with_first_queries
from hatlens.store import RunFolder
from hatlens.study import run_studies
from probes import behavioural_row as probe
from prompts.contexts import ContextSet
from prompts.perturb import answer_pairs, in_order, with_answer
from tests.hatlens.tiny_study import SETTINGS, added_later

CHANGED = {**SETTINGS, "pairs": 0, "twins": (), "reading": "greedy"}


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with controls, to which the behavioural rows of three contexts were added."""
    out = tmp_path_factory.mktemp("run") / "study"
    settings = {**CHANGED, "model": str(model), "controls": True}
    added_later(out, settings, "behavioural_row", {"behavioural_row": 3})
    return out


def bench_of(model: Path, run: Path) -> Bench:
    config = build_config({**CHANGED, "model": str(model), "behavioural_row": 3})
    study, loaded = draw_sets(config), load_configured(config, silent)
    return Bench(config, study, loaded, tokenize_sets(config, study, loaded), RunFolder(run))


def test_stored_answers_are_those_of_the_model(run: Path, model: Path) -> None:
    """Each example stands at its main place, whatever order it was printed in."""
    bench = bench_of(model, run)
    cell = RunFolder(run).read_arrays("behavioural_row/main/2-queries/1")
    drawn = with_first_queries(bench.study.sets[MAIN], 2)
    assert_allclose(cell["sizes"], [0.25, 0.5])
    assert_array_equal(np.sort(cell["orders"][1]), np.arange(7))
    found = measured(bench.config, RunFolder(run))
    assert found is not None
    for o, order in enumerate(cell["orders"]):
        asking = probe.Asking(layout=bench.layout, grammar=bench.grammar(), mass=0.99)
        own = probe.behavioural_row(bench.loaded, drawn, 1, asking, size=0.5, order=order)
        assert_allclose(cell["plus"][1, o], own.plus)
        assert_allclose(cell["minus"][1, o], own.minus)
        assert_allclose(found.runs.values[1, o, 1], own.rows)
    assert_allclose(found.runs.sizes, [0.25 / 4.995, 0.5 / 4.995])
    assert_allclose(found.contexts.answers[1], (cell["base"][0] - 4.995) / 4.995)


def test_result_tables_and_page_hold_the_rows_and_every_control(run: Path) -> None:
    found = json.loads((run / "results.json").read_text())["behavioural_row"]
    assert found["label"].startswith("not assessable: 3 contexts with a measured row")
    assert (found["contexts"], found["queries"], found["orders"]) == (3, 2, 2)
    assert [one["kind"] for one in found["controls"]] == list(CONTROL_SETS)
    assert [one["size"] for one in found["cost"]["by_size"]] == [0.25, 0.5]
    assert found["cost"]["plain_forward_seconds"] > 0
    tables = RunFolder(run).read_tables()
    assert set(tables["behavioural_row"]["set"]) == {MAIN, *CONTROL_SETS}
    assert len(tables["behavioural_cells"]) == 3 * 2 * 7
    cells = tables["behavioural_cells"]
    assert_allclose(cells["row"], (cells["smaller_size"] + cells["larger_size"]) / 2)
    assert_allclose(cells["row"], (cells["main_order"] + cells["other_order"]) / 2)
    page = (run / "report.html").read_text()
    assert 'id="study-1-behavioural"' in page
    assert "none (the headline)" in page


def test_a_control_is_run_once_with_the_larger_size(run: Path) -> None:
    for name, size in zip(CONTROL_SETS, (0.5, 0.5, 50.0), strict=True):
        cell = RunFolder(run).read_arrays(f"behavioural_row/{name}/2-queries/0")
        assert cell["plus"].shape == (1, 1, 7, 2)
        assert_allclose(cell["sizes"], [size])


def planted(name: str) -> Any:
    """A linear smoother in the model's place: its predictions for each edited context."""

    def moved(
        bench: Bench, of_set: str, drawn: ContextSet, index: int, size: float, order: Any
    ) -> probe.Perturbed:
        one = replace(drawn, contexts=(in_order(drawn.contexts[index], order),), blocks=(0,))
        pairs = answer_pairs(one, 0, size=size)

        def answers(context: Any) -> Any:
            form = stored_form(replace(one, contexts=(context,)))
            return form.printed_y(predict(BANK[name], form.arrays(form.targets)))[0]

        context = one.contexts[0]
        sides = [np.empty((len(order), len(context.queries))) for _ in range(2)]
        for place, example in enumerate(order):
            for side, values in zip(sides, (pairs.plus, pairs.minus), strict=True):
                side[example] = answers(with_answer(context, place, values[place]))
        seconds = {"forward": 1.0, "reading": 0.5}
        shifted = np.zeros(len(order), dtype=np.bool_)
        return probe.Perturbed(sides[0], sides[1], answers(context), size, seconds, 0.0, shifted)

    return moved


@pytest.mark.parametrize("name", ["ols", "kernel(1)", "recency(0.8)"])
def test_a_planted_smoother_is_named_from_the_stored_cells(
    name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OLS and a kernel do not see the order, recency follows it; 48 contexts decide."""
    monkeypatch.setattr(behavioural_row, "moved", planted(name))
    out = tmp_path / "run"
    more = {
        "contexts": 48,
        "examples": 12,
        "replicate": False,
        "condition": 10.0,
        "behavioural_row": 99,
    }
    config = build_config({**CHANGED, "model": str(model), **more})
    run_studies([config], out)
    found = json.loads((out / "results.json").read_text())["behavioural_row"]
    assert found["label"] == f"equals {name}"
    assert found["contexts"] == 48
    assert found["linear"] == "agree"
    contains = found["row_test"]["says"].startswith("contains")
    assert contains == (name == "ols")
    if name == "ols":
        assert_allclose(found["ols"]["slope"]["estimate"], 1, atol=1e-6)
        cells = RunFolder(out).read_tables()["behavioural_cells"]
        assert_allclose(cells["row"], cells["ols"], atol=1e-6)
        # One forward costs as long as the seconds that the planted runs claim.
        assert found["cost"]["by_size"][0]["forward_seconds"] == 1.0
    else:
        assert found["ols"]["equals"] != "equals"


@pytest.mark.parametrize(
    ("codec", "half", "sizes"),
    [
        ("unsigned-decimal", 4.995, [0.25, 0.5]),  # .05 x 4.995 = .24975, .1 x 4.995 = .4995
        ("unsigned-integer(2,0)", 49.5, [2.0, 5.0]),  # 2.475, 4.95
        ("unsigned-integer(1,0)", 4.5, [1.0, 2.0]),  # .225 and .45 are no step: one, and two
    ],
)
def test_sizes_lie_on_the_printed_grid(codec: str, half: float, sizes: list[float]) -> None:
    drawn = draw_sets(build_config({**CHANGED, "codec": codec})).sets[MAIN]
    assert drawn.half_range[-1] == pytest.approx(half)
    assert sizes_of(drawn) == pytest.approx(sizes)
