"""The real SmolLM2: the gate passes with one feature, and nothing depends on how it is run."""

from pathlib import Path

import numpy as np
import pytest
import torch

import hatlens as hl
from hatlens.measure import tokenize_sets
from hatlens.sets import MAIN, draw_sets
from probes.rows import context_rows

pytestmark = pytest.mark.model


def test_with_one_feature_the_answers_beat_the_mean(tmp_path: Path) -> None:
    run = hl.probe(
        "smollm2-135m",
        out=tmp_path / "run",
        features=1,
        contexts=24,
        queries=4,
        twins=[],
        replicate=False,
        seed=5,
    )
    behaviour = run.result["behaviour"]
    assert behaviour["parse_rate"] > 0.9
    assert behaviour["beats_mean"] is True
    assert behaviour["error"]["model"]["estimate"] < 0.8 * behaviour["error"]["mean"]["estimate"]
    assert run.result["parity"]["passed"] is True
    assert run.result["parity"]["layers_captured"] == 30
    assert run.label == "not assessable"
    assert "one feature" in run.sentence


def test_blocks_and_threads_change_nothing_beyond_rounding() -> None:
    config = hl.StudyConfig.model_validate({"contexts": 1, "queries": 3, "pairs": 0})
    loaded = hl.load_model("smollm2-135m")
    (tokens,) = tokenize_sets(config, draw_sets(config), loaded)[MAIN]
    before = torch.get_num_threads()
    try:
        found = []
        for threads, block in ((1, 0), (2, 0), (1, 1)):
            torch.set_num_threads(threads)
            found.append(context_rows(loaded, tokens, block=block, answer_tokens=4))
    finally:
        torch.set_num_threads(before)
    size = np.nanmax(np.abs(found[0].query[..., 0, :]))
    for other in found[1:]:
        scores, weights = (
            np.abs(other.query - found[0].query)[..., kind, :].max() for kind in (0, 1)
        )
        assert scores <= 1e-5 * size
        assert weights <= 1e-5
        assert other.answers == found[0].answers
