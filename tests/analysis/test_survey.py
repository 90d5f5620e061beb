"""The survey names the hypothesis that was planted in a row, by its share alone."""

import numpy as np
import pytest

from analysis.bank import BANK, hypothesis_named, scores
from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats
from analysis.survey import survey
from tests.analysis.drawn import conditioned


@pytest.fixture(scope="module")
def contexts() -> ContextArrays:
    return conditioned(contexts=16, queries=4, condition=20.0)


def planted(contexts: ContextArrays, name: str, noise: float = 0.0) -> Floats:
    rng = np.random.default_rng(0)
    row = scores(hypothesis_named(name), contexts)
    return np.asarray(row / row.std() + noise * rng.standard_normal(row.shape))


def test_a_planted_row_is_explained_whole_by_its_own_hypothesis(contexts: ContextArrays) -> None:
    rows = np.stack([planted(contexts, name) for name in ("ols", "kernel(1)")], axis=2)
    lines = {
        line.hypothesis: line
        for line in survey(rows, contexts, list(BANK.values()), rng=np.random.default_rng(1))
    }
    for place, name in enumerate(("ols", "kernel(1)")):
        assert lines[name].row == place
        np.testing.assert_allclose(lines[name].explained.estimate, 1.0, atol=1e-4)


def test_the_share_is_that_of_an_explicit_fit(contexts: ContextArrays) -> None:
    """One column, coefficient from the other folds by hand, ridge 1e-6 aside."""
    row = planted(contexts, "ols", noise=1.0)
    (line,) = survey(
        row[:, :, None], contexts, [hypothesis_named("ols")], rng=np.random.default_rng(1)
    )
    column = double_centred(scores(hypothesis_named("ols"), contexts))
    target = double_centred(row)
    groups = np.random.default_rng(1).permutation(np.arange(16) % 8)
    error = 0.0
    for fold in range(8):
        inside = groups == fold
        slope = (column[~inside] * target[~inside]).sum() / (column[~inside] ** 2).sum()
        error += ((target[inside] - slope * column[inside]) ** 2).sum()
    np.testing.assert_allclose(line.explained.estimate, 1 - error / (target**2).sum(), rtol=1e-4)
    assert line.explained.low < line.explained.estimate < line.explained.high


def test_rows_that_do_not_see_the_query_are_named_by_no_hypothesis(contexts: ContextArrays) -> None:
    still = np.broadcast_to(np.arange(contexts.x.shape[1]), (16, 4, 1, contexts.x.shape[1]))
    lines = survey(
        still.astype(float), contexts, [hypothesis_named("ols")], rng=np.random.default_rng(1)
    )
    assert [line.row for line in lines] == [-1]
    assert np.isnan(lines[0].explained.estimate)
