"""A head that uses its own examples' S^-1 does not follow another context's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.bank import hypothesis_named, rows
from analysis.design import ContextArrays
from analysis.foreign import foreign_least_squares, foreign_rows
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign
from tests.analysis.drawn import conditioned
from tests.analysis.planted_rows import planted


def test_the_matrix_is_the_one_of_the_context_half_the_set_away() -> None:
    contexts = conditioned(contexts=4, examples=9, queries=3, seed=2)
    found = foreign_rows(contexts)
    for c in range(4):
        away = contexts.x[(c + 2) % 4]
        spread = (away - away.mean(axis=0)).T @ (away - away.mean(axis=0))
        mean = contexts.x[c].mean(axis=0)
        left, right = contexts.queries[c] - mean, contexts.x[c] - mean
        expected = left @ np.linalg.solve(spread, right.T) + 1 / 9
        assert_allclose(found[c], expected, rtol=1e-9, atol=1e-9)


def test_equal_contexts_make_it_least_squares() -> None:
    one = conditioned(contexts=1, seed=3)
    twice = ContextArrays(*(np.concatenate([field, field]) for field in one))
    assert_allclose(foreign_rows(twice), rows(hypothesis_named("ols"), twice), atol=1e-9)


def test_a_single_context_has_no_other() -> None:
    with pytest.raises(ValueError, match="at least 2 contexts; came 1"):
        foreign_rows(conditioned(contexts=1))


def test_a_planted_least_squares_head_passes_with_its_own_matrix_only() -> None:
    study = planted(["ols", "centred dot"], noise=0.3, design=SimulatedDesign(contexts=32), pairs=8)
    own, foreign = (
        row_test(study.scores, study.contexts, [one], rng=np.random.default_rng(0), flips=400)
        for one in ("ols", foreign_least_squares())
    )
    assert own.contains("ols")[0]
    assert not foreign.contains(foreign_least_squares().name).any()
