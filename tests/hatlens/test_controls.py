"""`--controls`: what stands beside the headline, and that asking for it later costs no cell."""

import json
from pathlib import Path

import numpy as np
import pytest

from hatlens.cells import TRAINED
from hatlens.config import build_config
from hatlens.controls import halves
from hatlens.sets import CONTROL_SETS, MAIN, load_set
from hatlens.store import RunFolder
from hatlens.stored_rows import answers
from hatlens.study import run_studies
from tests.hatlens.tiny_study import SETTINGS, added_later

CHANGED = {**SETTINGS, "contexts": 16, "pairs": 0}


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study without controls, to which they were added."""
    out = tmp_path_factory.mktemp("run") / "study"
    added_later(out, {**CHANGED, "model": str(model)}, "controls", {"controls": True})
    return out


def test_every_control_is_a_table_beside_the_headline(run: Path) -> None:
    result = json.loads((run / "results.json").read_text())
    kinds = [(one["kind"], one.get("half")) for one in result["controls"]]
    assert kinds == [
        ("foreign_s", None),
        ("y_permuted", None),
        ("order_permuted", None),
        ("surface", None),
        ("split_half", "first"),
        ("split_half", "second"),
    ]
    assert all(one["row_test"] and one["expected"] for one in result["controls"])
    assert -1 <= result["split_half_reliability"]["halves"] <= 1
    page = (run / "report.html").read_text()
    assert "y permuted" in page
    assert "split half" in page


def test_adding_controls_changes_no_other_figure(run: Path, model: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    run_studies([build_config({**CHANGED, "model": str(model)})], plain)
    with_controls, without = (
        json.loads((folder / "results.json").read_text()) for folder in (run, plain)
    )
    for key in ("row_test", "behaviour", "design", "agreement"):
        assert with_controls[key] == without[key]
    assert "controls" not in without


def test_controls_that_are_taken_back_leave_no_table(run: Path, model: Path) -> None:
    folder = RunFolder(run)
    assert "controls" in folder.read_tables()
    run_studies([build_config({**CHANGED, "model": str(model)})], run)
    assert "controls" not in folder.read_tables()
    assert "controls" not in folder.read_results()
    run_studies([build_config({**CHANGED, "model": str(model), "controls": True})], run)
    assert "controls" in folder.read_tables()


def test_answers_are_read_by_the_codec_that_printed_them(run: Path) -> None:
    main, surface = load_set(RunFolder(run), MAIN), load_set(RunFolder(run), "surface")
    assert main is not None
    assert surface is not None
    assert main.half_range[-1] == pytest.approx(4.995)
    assert surface.half_range[-1] == pytest.approx(499.5)
    np.testing.assert_allclose(main.y, surface.y, atol=1e-9)
    for name in CONTROL_SETS:
        texts, _ = answers(RunFolder(run), TRAINED, name)
        assert texts.shape == (16, 3)


def test_no_block_of_rows_is_in_both_halves() -> None:
    blocks = np.array([0, 1, 2, 0, 1, 2, 0])
    found = halves(blocks)
    assert (found["first"] ^ found["second"]).all()
    assert not set(blocks[found["first"]]) & set(blocks[found["second"]])
