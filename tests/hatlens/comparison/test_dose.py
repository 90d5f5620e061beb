"""Doses of plain and layer-causal descent on a tiny model: cells, table, result, claim."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatlens.comparison import dose
from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.dose import FACTORS, LIKENESS, NORM, dose_claim, dose_table, run_dose
from hatlens.comparison.feed import SetFeed, drawn_source, feed
from hatlens.comparison.fitting import learn
from hatlens.comparison.study import run_similarity
from hatlens.progress import silent
from hatlens.store import RunFolder
from probes.finetune import fine_tune
from probes.models import LoadedModel, load_model
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from tests.hatlens.comparison.tiny_task import SETTINGS

SMALL: dict[str, Any] = {**SETTINGS, "queries": 6, "twins": (), "dose": True}
NONE = np.zeros(0, dtype=np.int64)


@pytest.fixture(scope="module")
def config(llama: str, task: Path) -> SimilarityConfig:
    return build_similarity({**SMALL, "model": llama, "task": str(task)})


@pytest.fixture(scope="module")
def whole(
    config: SimilarityConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, dict[str, Any]]:
    out = tmp_path_factory.mktemp("dose") / "run"
    run_similarity(config.model_copy(update={"dose": False}), out)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("cells/**/*.npz")}
    result = run_similarity(config, out)
    # Doses are added to a finished run without running anything of it again.
    assert {p: p.stat().st_mtime_ns for p in out.rglob("cells/**/*.npz")} == before
    return RunFolder(out), result


@pytest.fixture(scope="module")
def fed(config: SimilarityConfig) -> tuple[LoadedModel, SetFeed]:
    loaded = load_model(config.model)
    return loaded, feed(config, drawn_source(config), loaded).sets[0]


def test_each_dose_is_reached(whole: Any) -> None:
    for place in range(2):
        own = float(whole[0].read_arrays(f"cells/trained/{place}")["fit/ft/norm"])
        cell = whole[0].read_arrays(f"dose/trained/{place}")
        for method in ("gd", "lcgd"):
            wanted = own * np.array(FACTORS)
            np.testing.assert_allclose(cell[f"{method}/norm"], wanted, rtol=0.25)
            assert (np.diff(cell[f"{method}/rate"]) > 0).all()
            assert list(cell[f"{method}/failed"]) == [""] * 5


@pytest.mark.parametrize("method", ["gd", "lcgd"])
def test_the_numbers_are_those_of_the_fine_tuning_at_that_rate(
    method: Any, whole: Any, fed: tuple[LoadedModel, SetFeed]
) -> None:
    """Cosines written out, from runs of this test's own."""
    loaded, one = fed
    cell = whole[0].read_arrays("dose/trained/0")
    lessons = lessons_of(one.prompts)
    tuned = fine_tune(
        loaded,
        lessons.alone,
        lessons.answers,
        method=method,
        rate=float(cell[f"{method}/rate"][3]),
        step_norm="shared",
    )
    shown = np.concatenate(one.prompts.demonstrations)
    runs = {"icl": Condition(shown), "zsl": Condition(NONE), "ft": Condition(NONE, tuned)}
    for item in run_conditions(loaded, one.prompts, runs):
        for layer in range(2):
            icl, zsl, ft = (
                item.runs[name].h[layer].astype(np.float64) for name in ("icl", "zsl", "ft")
            )
            out = zsl / np.linalg.norm(zsl)
            a, b = ((x - zsl) - ((x - zsl) @ out) * out for x in (icl, ft))
            place = (3, item.query, layer)
            wanted = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            assert cell[f"{method}/{LIKENESS[0]}"][place] == pytest.approx(wanted, abs=1e-4)
            change = np.linalg.norm(ft - zsl) / np.linalg.norm(zsl)
            assert cell[f"{method}/{NORM}"][place] == pytest.approx(change, rel=1e-4)
        cosines = []
        for head in range(4):
            icl, zsl, ft = (
                item.runs[name].scores[1, head].astype(np.float64) for name in ("icl", "zsl", "ft")
            )
            a, b = ((x - zsl) - (x - zsl).mean() for x in (icl, ft))
            cosines.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        found = cell[f"{method}/{LIKENESS[1]}"][3, item.query, 1]
        assert found == pytest.approx(np.mean(cosines), abs=1e-3)


def test_the_result_says_where_they_were_compared(whole: Any) -> None:
    found = whole[1]["dose"]
    assert found["factors"] == list(FACTORS) or tuple(found["factors"]) == FACTORS
    assert [one["measure"] for one in found["measures"]] == list(LIKENESS)
    for one in found["measures"]:
        assert (one["sets"], one["queries"]) == (2, 6)
        assert one["gain"].low <= one["gain"].estimate <= one["gain"].high
        assert 0 < one["low"] < one["high"]
        assert one["shared"] > 0.9
        assert -1 < one["gain_other"].estimate < 1
    # Rotation hides the demonstrations from a first layer's scores: they do not change in ICL.
    assert [one["layers_shared"] for one in found["measures"]] == [2, 1]
    assert np.isnan(found["measures"][1]["by_layer"][0])


def test_the_table_holds_the_curves(whole: Any) -> None:
    table = whole[0].read_tables()["dose"]
    assert len(table) == 2 * 2 * 5 * 2 * 2
    line = table[
        (table["measure"] == LIKENESS[0])
        & (table["method"] == "lcgd")
        & (table["dose"] == 2)
        & (table["set"] == 1)
        & (table["layer"] == 1)
    ].iloc[0]
    cell = whole[0].read_arrays("dose/trained/1")
    assert line["likeness"] == pytest.approx(cell[f"lcgd/{LIKENESS[0]}"][3, :, 1].mean())
    assert line["relative_norm"] == pytest.approx(cell[f"lcgd/{NORM}"][3, :, 1].mean())


def test_the_page_shows_a_figure_a_measure(whole: Any) -> None:
    page = (whole[0].path / "report.html").read_text(encoding="utf-8")
    assert all(f"{key} by dose" in page for key in LIKENESS)


def test_the_claim_is_judged_from_the_folder(whole: Any, config: SimilarityConfig) -> None:
    assert "came 2 (--sets 5)" in dose_claim(config, whole[0]).reason
    five = config.model_copy(update={"sets": 5})
    for place in range(2, 5):
        cell = whole[0].read_arrays(f"dose/trained/{place % 2}")
        whole[0].write_arrays(f"dose/trained/{place}", cell)
    found, result = dose_claim(five, whole[0]), dose.dose_result(five, whole[0])
    assert result is not None
    gains = [one["gain"] for one in result["measures"]]
    assert found.effect.estimate == min(one.estimate for one in gains)
    assert found.p == max(one["p"] for one in result["measures"])
    assert found.figures.count("to ICL on other demonstrations") == 2
    unasked = dose_claim(config.model_copy(update={"dose": False}), whole[0])
    assert "--dose" in unasked.reason


def test_a_set_whose_fine_tuning_diverged_says_so(
    fed: tuple[LoadedModel, SetFeed], config: SimilarityConfig, tmp_path: Path
) -> None:
    own = {"failed": np.array("diverged"), "fit/ft/norm": np.array(np.nan)}
    cell = run_dose(config, *fed, own, silent)
    assert {key: str(value) for key, value in cell.items()} == {"failed": "diverged"}
    own = {"failed": np.array(""), "fit/ft/norm": np.array(0.0)}
    assert "moved no output" in str(run_dose(config, *fed, own, silent)["failed"])
    folder = RunFolder(tmp_path / "run")
    for place in range(2):
        folder.write_arrays(f"dose/trained/{place}", cell)
    assert dose_claim(config, folder).reason.startswith("fine-tuning diverged")
    assert dose_table(config, folder) == {}
    result = dose.dose_result(config, folder)
    assert result is not None
    assert result["failures"] == [{"set": s, "sentence": "diverged"} for s in range(2)]


def test_a_dose_that_diverges_is_undefined(
    fed: tuple[LoadedModel, SetFeed], config: SimilarityConfig, monkeypatch: pytest.MonkeyPatch
) -> None:

    def failing(way: SimilarityConfig, model: LoadedModel, lessons: Any, rate: float) -> Any:
        # Whatever the rate of layer-causal descent, its loss is not finite.
        return learn(way, model, lessons, 1e30 if way.ft == "lcgd" else rate)

    monkeypatch.setattr(dose, "learn", failing)
    monkeypatch.setattr(dose, "DOSE_QUERIES", 2)
    monkeypatch.setattr(dose, "FACTORS", (1.0,))
    own = {
        "failed": np.array(""),
        "fit/ft/norm": np.array(0.1),
        "fit/ft/rate": np.array(0.01),
    }
    cell = run_dose(config, *fed, own, silent)
    assert cell[f"gd/{NORM}"].shape == cell[f"lcgd/{NORM}"].shape == (1, 2, 2)
    assert np.isfinite(cell[f"gd/{NORM}"]).all()
    assert np.isnan(cell[f"lcgd/{NORM}"]).all()
    assert np.isnan(cell[f"lcgd/{LIKENESS[0]}"]).all()
    assert "diverged" in str(cell["lcgd/failed"][0])
