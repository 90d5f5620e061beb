"""Exact readings in a study: stored, resumed, compared with hypotheses, shown for any query."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.reading_part import SHOWN_PROBABILITY
from hatlens.config import build_config
from hatlens.measure import load_configured, tokenize_sets
from hatlens.progress import silent
from hatlens.sets import MAIN, draw_sets
from hatlens.stages import Bench
from hatlens.stages.reading import mean_answers, stored_readings
from hatlens.store import RunFolder
from hatlens.study import run_studies
from probes.reading import read_context
from tests.hatlens.tiny_study import SETTINGS, added_later

CHANGED = {**SETTINGS, "pairs": 0, "twins": ()}
CONFIG = build_config(CHANGED)


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with printed answers only, to which exact readings were added."""
    out = tmp_path_factory.mktemp("run") / "study"
    first = {**CHANGED, "model": str(model), "reading": "greedy"}
    added_later(out, first, "reading", {"reading": "exact"})
    return out


def test_stored_readings_are_those_of_the_model(run: Path, model: Path) -> None:
    config = build_config({**CHANGED, "model": str(model)})
    study = draw_sets(config)
    loaded = load_configured(config, silent)
    bench = Bench(config, study, loaded, tokenize_sets(config, study, loaded), RunFolder(run))
    found = stored_readings(CONFIG, RunFolder(run))["distributions"]
    means = mean_answers(config, RunFolder(run))
    assert means is not None
    for context in (0, 5):
        readings = read_context(loaded, bench.tokens[MAIN][context], bench.grammar(), mass=0.99)
        for query, one in enumerate(readings):
            held = ~np.isnan(found.values[context, query])
            assert_allclose(found.values[context, query, held], one.values)
            assert_allclose(found.probabilities[context, query, held], one.probabilities)
            assert_allclose(means[context, query], one.mean)


def test_the_result_has_scores_and_says_what_is_written_instead_of_numbers(run: Path) -> None:
    result = json.loads((run / "results.json").read_text())
    reading = result["reading"]
    assert reading["scores"]["unexplored"] <= 0.01 + 1e-9
    assert set(reading["scores"]["coverage"]) == {"0.5", "0.8", "0.9"}
    # A random model writes numbers no more often than other words.
    assert reading["outside"] > 0.5
    assert len(reading["likeliest_first_tokens"]) == 5
    assert "likeliest first tokens" in reading["sentence"]


def test_the_page_shows_the_distribution_of_every_answer(run: Path) -> None:
    page = (run / "report.html").read_text()
    start = page.index('id="study-1-reading-answers">') + len('id="study-1-reading-answers">')
    data = json.loads(page[start : page.index("</script>", start)])
    assert data["context"] == list(np.repeat(np.arange(8), 3))
    assert data["query"] == list(np.tile(np.arange(3), 8))
    found = stored_readings(CONFIG, RunFolder(run))["distributions"]
    for at, (values, chances) in enumerate(zip(data["values"], data["probabilities"], strict=True)):
        assert len(values) == len(chances)
        context, query = divmod(at, 3)
        every = found.probabilities[context, query]
        assert_allclose(sum(chances), every[every >= SHOWN_PROBABILITY].sum(), rtol=1e-3)


def test_analysis_again_needs_no_model(run: Path) -> None:
    from hatlens.study import analyse_run

    before = json.loads((run / "results.json").read_text())["reading"]
    analyse_run(run)
    assert json.loads((run / "results.json").read_text())["reading"] == before


def test_only_the_first_contexts_are_read_where_asked(model: Path, tmp_path: Path) -> None:
    changed = build_config({**CHANGED, "model": str(model), "reading_contexts": 6})
    result = run_studies([changed], tmp_path / "few")
    assert result["reading"]["contexts"] == 6
    means = mean_answers(changed, RunFolder(tmp_path / "few"))
    assert means is not None
    assert np.isnan(means[6:]).all()
    assert np.isfinite(means[:6]).all()
    whole = build_config({**CHANGED, "model": str(model)})
    assert run_studies([whole], tmp_path / "few")["reading"]["contexts"] == 8
