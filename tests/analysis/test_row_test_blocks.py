"""Contexts that share rows of a table: the block is what folds, flips and resamples are made of."""

import numpy as np
import pytest

from analysis.design import ContextArrays
from analysis.moments import Moments, by_block
from analysis.reproducible import Shared, shared_by_block
from analysis.row_result import CONTAINS
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign
from tests.analysis.planted_rows import planted


def test_products_are_summed_over_the_contexts_of_a_block() -> None:
    gram = np.arange(3.0)[:, None, None] * np.ones((3, 2, 2))
    moments = Moments(gram, gram[:, :, :1], gram[:, 0, :1], 10)
    found = by_block(moments, np.array([7, 4, 7]))
    np.testing.assert_array_equal(found.total[:, 0], [1, 2])  # block 4: 1; block 7: 0 + 2
    np.testing.assert_array_equal(found.gram[:, 0, 0], [1, 2])
    assert found.cells == 15


def test_a_block_counts_as_run_twice_if_all_of_it_was() -> None:
    """Contexts 0, 1, 3 of four were; block 0 is {0, 1}, block 1 is {2, 3}."""
    part = np.array([[1.0], [2], [4]])
    shared = Shared(part[:, None], part, part, np.array([True, True, False, True]))
    found = shared_by_block(shared, np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(found.valid, [True, False])
    np.testing.assert_array_equal(found.total, [[3.0]])


def test_as_many_blocks_as_contexts_change_nothing() -> None:
    study = planted(["ols", "edit distance"], design=SimulatedDesign(contexts=16), pairs=8)
    alone, blocks = (
        row_test(
            study.scores,
            study.contexts,
            rng=np.random.default_rng(0),
            resamples=50,
            replicate=study.replicate,
            blocks=given,
        )
        for given in (None, range(16))
    )
    np.testing.assert_allclose(blocks.t, alone.t, rtol=1e-9)
    np.testing.assert_allclose(
        blocks.share_of_reproducible.low, alone.share_of_reproducible.low, rtol=1e-9
    )
    assert blocks.chosen[0].row == alone.chosen[0].row


def test_a_context_told_four_times_is_one_unit() -> None:
    """Repeating each context four times would double T; by blocks T is that of the contexts."""
    study = planted(["ols"], noise=6.0, design=SimulatedDesign(contexts=16), pairs=8)
    four = np.repeat(np.arange(16), 4)
    repeated = {name: part[four] for name, part in study.contexts._asdict().items()}
    contexts = ContextArrays(**repeated)
    once, naive, blocked = (
        row_test(scores, arrays, rng=np.random.default_rng(0), resamples=50, blocks=given)
        for scores, arrays, given in (
            (study.scores, study.contexts, None),
            (study.scores[four], contexts, None),
            (study.scores[four], contexts, four),
        )
    )
    assert (blocked.units, blocked.contexts) == (16, 64)
    assert "16 independent contexts" in blocked.preview
    np.testing.assert_allclose(blocked.t, once.t, rtol=1e-6)
    assert naive.t[0, 0] > 1.5 * once.t[0, 0]


def test_few_blocks_are_not_assessable() -> None:
    study = planted(["ols"], design=SimulatedDesign(contexts=16), pairs=8)
    found = row_test(
        study.scores,
        study.contexts,
        rng=np.random.default_rng(0),
        resamples=20,
        blocks=np.arange(16) % 4,
    )
    assert "4 independent contexts: the smallest p by sign flips is 1/16" in found.not_assessable
    assert found.says[0, 0] != CONTAINS


def test_another_number_of_blocks_is_refused() -> None:
    study = planted(["ols"], design=SimulatedDesign(contexts=6), pairs=4)
    with pytest.raises(ValueError, match=r"one block for each of 6 contexts; came the shape \(2,"):
        row_test(study.scores, study.contexts, rng=np.random.default_rng(0), blocks=[0, 1])
