"""Column names of a table: real, or none that a model could know the answer by."""

import json
from pathlib import Path

import numpy as np
import pytest

from hatlens.config import build_config
from hatlens.sets import MAIN, draw_sets
from hatlens.study import run_studies
from prompts.layouts import layout_named, render
from tests.hatlens.tiny_study import SETTINGS, write_gpt2

TABLE = {
    "data": "diabetes",
    "columns": ("bmi", "bp"),
    "layout": "named-block",
    "codec": "unsigned-decimal",
    "examples": 7,
    "queries": 3,
    "contexts": 8,
}


def first_prompt(names: str) -> str:
    drawn = draw_sets(build_config({**TABLE, "names": names})).sets[MAIN]
    shown = render(
        drawn.contexts[0],
        0,
        layout=layout_named("named-block"),
        codec=drawn.codec,
        feature_names=drawn.feature_names,
        target_name=drawn.target_name,
    )
    return shown.text


def test_anonymous_names_change_the_names_and_nothing_else() -> None:
    real, anonymous = first_prompt("real"), first_prompt("anonymous")
    assert "bmi: " in real
    assert "bmi" not in anonymous
    swapped = real.replace("bmi: ", "x1: ").replace("bp: ", "x2: ").replace("progression:", "y:")
    assert swapped == anonymous
    real_set, other = (
        draw_sets(build_config({**TABLE, "names": names})).sets[MAIN]
        for names in ("real", "anonymous")
    )
    for one, two in zip(real_set.contexts, other.contexts, strict=True):
        np.testing.assert_array_equal(one.x, two.x)


@pytest.mark.parametrize("names", ["real", "anonymous"])
def test_the_whole_job_runs_on_a_table_with_its_controls(names: str, tmp_path: Path) -> None:
    model = write_gpt2(tmp_path / "tiny", positions=1024)
    changed = {**TABLE, "names": names, "controls": True, "behavioural_row": 2, "cause": True}
    config = build_config(
        {**SETTINGS, **TABLE, **changed, "model": str(model), "cause_contexts": 2,
         "random_sets": 2, "twins": (), "mass": 0.5}
    )  # fmt: skip
    result = run_studies([config], tmp_path / "run")
    kinds = [one["kind"] for one in result["controls"]]
    assert {"y_permuted", "order_permuted", "surface"} <= set(kinds)
    assert result["behavioural_row"]["contexts"] == 2
    assert result["cause"]["label"]
    prompt = json.loads((tmp_path / "run" / "manifest.json").read_text())["prompts"][0]
    assert ("bmi" in prompt) == (names == "real")
