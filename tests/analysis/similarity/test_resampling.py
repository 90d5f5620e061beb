"""Intervals of many layers at once, and the rank of a model among its twins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.similarity.resampling import (
    LAYER_RESAMPLES,
    RESAMPLES,
    draw_resamples,
    first_resamples,
    paired,
    paired_each,
    resampled_means,
    two_way_interval,
    two_way_intervals,
)
from analysis.similarity.verdict import rank_p


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_each_layer_has_the_interval_it_has_alone(sets: int, queries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((sets, queries, 4))
    values[..., 1] = np.nan
    values[:, :, 2][rng.random((sets, queries)) < 0.5] = np.nan
    drawn = draw_resamples(sets, queries, rng=rng)
    found = two_way_intervals(values, rng=drawn)
    for layer in range(4):
        alone = two_way_interval(values[..., layer], rng=drawn)
        np.testing.assert_allclose(found.at(layer), alone, atol=1e-12)
    assert np.isnan(found.estimate[1])
    assert np.isnan(found.low).all() == (queries == 1)


def test_a_resample_repeats_whole_sets_and_whole_queries() -> None:
    """Built one by one: every drawn set and query stands there as often as it was drawn."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((3, 5, 2))
    values[0, 1, 0] = np.nan
    drawn = draw_resamples(3, 5, rng=rng)
    means = resampled_means(values, rng=drawn)
    for place in (0, 7, 99):
        sets = np.repeat(np.arange(3), drawn.sets[place].astype(int))
        queries = np.repeat(np.arange(5), drawn.queries[place].astype(int))
        repeated = values[sets][:, queries]
        np.testing.assert_allclose(means[place], np.nanmean(repeated, axis=(0, 1)))


def test_several_mismatches_at_once_are_each_by_itself() -> None:
    rng = np.random.default_rng(4)
    matched, first, second = rng.standard_normal((3, 2, 6, 3))
    drawn = draw_resamples(2, 6, rng=rng)
    found = paired_each(matched, {"a": first, "b": second}, rng=drawn)
    np.testing.assert_allclose(found["a"][:3], paired(matched, first, rng=drawn)[:3])
    np.testing.assert_allclose(found["b"][:3], paired(matched, second, rng=drawn)[:3])
    assert found["b"].p == paired(matched, second, rng=drawn).p


def test_layers_take_the_first_of_the_same_resamples() -> None:
    drawn = draw_resamples(2, 6, rng=np.random.default_rng(5))
    some = first_resamples(drawn)
    assert len(drawn.queries) == RESAMPLES
    assert len(some.queries) == len(some.sets) == LAYER_RESAMPLES
    np.testing.assert_array_equal(some.queries, drawn.queries[:LAYER_RESAMPLES])


def test_the_rank_among_twins() -> None:
    """Of .1, .3 and .3, two reach .3: (1 + 2) / 4. None of 19 reaches .5: 1 / 20."""
    assert rank_p(0.3, [0.1, 0.3, 0.3]) == pytest.approx(3 / 4)
    assert rank_p(0.5, [0.01 * k for k in range(19)]) == pytest.approx(1 / 20)
    assert rank_p(0.5, [0.2]) == pytest.approx(1 / 2)
    assert rank_p(-1.0, [0.1, 0.2]) == 1
    assert math.isnan(rank_p(0.5, []))
    assert math.isnan(rank_p(math.nan, [0.1]))
