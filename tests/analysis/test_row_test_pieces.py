"""The pieces of the row test, each against a slow loop, a count by hand, or an identity."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.bank import hypothesis_named, rows
from analysis.bootstrap import ratio_intervals, resampled_counts
from analysis.ceiling import ceiling, score_scale
from analysis.centring import double_centred
from analysis.design import Floats
from analysis.flips import corrected_p, critical_value, flip_signs, max_t_null, t_statistic
from analysis.folds import (
    RIDGE,
    assign_folds,
    compare,
    folded,
    held_out_error,
    log_ratio,
    unique_over_explained,
)
from analysis.moments import row_moments
from analysis.simulate import SimulatedDesign, simulate_contexts


def test_centring_by_hand() -> None:
    """Rows (1, 2, 6) and (3, 0, 0): less their means 3 and 1 they are (-2, -1, 3), (2, -1, -1);
    the mean of both is (0, -1, 1), so that (-2, 0, 2) and (2, 0, -2) are left."""
    np.testing.assert_allclose(
        double_centred(np.array([[1.0, 2, 6], [3, 0, 0]])), [[-2, 0, 2], [2, 0, -2]]
    )


def test_a_row_that_is_the_same_for_all_queries_is_blind() -> None:
    rng = np.random.default_rng(0)
    scores = np.empty((6, 4, 3, 5))
    scores[:, :, 0] = rng.standard_normal((6, 4, 5))
    scores[:, :, 1] = rng.standard_normal((6, 1, 5)) + rng.standard_normal((6, 4, 1))
    scores[:, :, 2] = rng.standard_normal((6, 4, 5))
    scores[2, 1, 2, 0] = np.nan
    seen = row_moments(scores, rng.standard_normal((6, 4, 5, 2)))
    np.testing.assert_array_equal(seen.blind, [False, True, False])
    np.testing.assert_array_equal(seen.outside, [False, False, True])
    np.testing.assert_array_equal(seen.tested, [0])


def test_a_row_a_thousandth_as_large_is_at_the_edge_of_blindness() -> None:
    """Variance below 1e-6 of the largest: a thousandth of the sd is the edge."""
    row = np.random.default_rng(0).standard_normal((6, 4, 5))
    scores = np.stack([row, 1.001e-3 * row, 0.999e-3 * row], axis=2)
    seen = row_moments(scores, np.ones((6, 4, 5, 1)))
    np.testing.assert_array_equal(seen.blind, [False, False, True])


def slow_held_out(
    columns: Floats, rows: Floats, groups: np.ndarray, picked: list[int]
) -> tuple[Floats, Floats]:
    """Errors (C, R) and last coefficients (F, R) by stacking all cells and augmented lstsq."""
    count = columns.shape[0]
    x = columns[..., picked].reshape(count, -1, len(picked))
    y = double_centred(rows.transpose(0, 2, 1, 3)).reshape(count, rows.shape[2], -1)
    y = y / np.sqrt((y**2).mean(axis=(0, 2)))[None, :, None]
    errors = np.empty((count, rows.shape[2]))
    last = np.empty((groups.max() + 1, rows.shape[2]))
    for fold in range(groups.max() + 1):
        inside, outside = np.flatnonzero(groups == fold), np.flatnonzero(groups != fold)
        left = x[outside].reshape(-1, len(picked))
        penalty = np.sqrt(RIDGE * len(left)) * np.eye(len(picked))
        for r in range(rows.shape[2]):
            right = np.concatenate([y[outside, r].ravel(), np.zeros(len(picked))])
            fit = np.linalg.lstsq(np.vstack([left, penalty]), right, rcond=None)[0]
            last[fold, r] = fit[-1]
            for c in inside:
                errors[c, r] = ((y[c, r] - x[c] @ fit) ** 2).sum()
    return errors, last


def test_products_give_what_explicit_least_squares_gives() -> None:
    rng = np.random.default_rng(3)
    columns = rng.standard_normal((9, 4, 6, 5))
    columns[..., 1] = columns[..., 0] + 1e-3 * columns[..., 1]  # nearly collinear
    columns = columns / np.sqrt((columns**2).mean(axis=(0, 1, 2)))
    scores = rng.standard_normal((9, 4, 3, 6)) + columns[..., :3].transpose(0, 1, 3, 2)
    groups = assign_folds(9, 4, rng=rng)
    data = folded(row_moments(scores, columns).moments, groups)
    base = [0, 1, 3]
    found = compare(data, np.array(base), 4)
    without, _ = slow_held_out(columns, scores, groups, base)
    with_column, last = slow_held_out(columns, scores, groups, [*base, 4])
    np.testing.assert_allclose(found.without, without, rtol=1e-9)
    np.testing.assert_allclose(found.with_column, with_column, rtol=1e-9)
    np.testing.assert_allclose(found.coefficient, last, rtol=1e-7)
    np.testing.assert_allclose(log_ratio(found), np.log(without / with_column), rtol=1e-7)
    np.testing.assert_allclose(held_out_error(data, base), without, rtol=1e-9)


def test_folds_are_of_equal_size_and_every_context_is_in_one() -> None:
    groups = assign_folds(21, 8, rng=np.random.default_rng(0))
    assert sorted(np.bincount(groups)) == [2, 2, 2, 3, 3, 3, 3, 3]
    assert assign_folds(3, 8, rng=np.random.default_rng(0)).max() == 2


def test_unique_over_explained_by_hand() -> None:
    """Of 10, M0 leaves 6 and M1 leaves 4: 2 of the 6 explained are the column's own. A row of
    which nothing is explained has none."""
    np.testing.assert_allclose(
        unique_over_explained(np.array([6.0, 9]), np.array([4.0, 11]), np.array([10.0, 10])),
        [1 / 3, np.nan],
    )


def test_t_is_mean_over_standard_error() -> None:
    """1, 2, 3: mean 2, sd 1, standard error 1/sqrt(3)."""
    np.testing.assert_allclose(t_statistic(np.array([[1.0], [2], [3]])), [2 * np.sqrt(3)])


def test_p_by_flipping_all_signs_of_six_contexts() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((6, 3)) + np.array([0.0, 1.0, 3.0])
    largest = []
    for chosen in itertools.product((1.0, -1.0), repeat=6):
        flipped = np.array(chosen)[:, None] * values
        t = flipped.mean(axis=0) / (flipped.std(axis=0, ddof=1) / np.sqrt(6))
        largest.append(t.max())
    observed = values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(6))
    slow = [np.mean([one >= t - 1e-9 for one in largest]) for t in observed]
    signs = flip_signs(6, 2000, rng=rng)
    assert signs.shape == (64, 6)
    p = corrected_p(t_statistic(values), max_t_null(values, signs))
    np.testing.assert_allclose(p, slow)
    assert p.min() >= 1 / 64


def test_the_smallest_p_of_three_contexts_is_an_eighth() -> None:
    values = np.array([[1.0], [1.1], [1.2]])
    null = max_t_null(values, flip_signs(3, 2000, rng=np.random.default_rng(0)))
    np.testing.assert_allclose(corrected_p(t_statistic(values), null), [1 / 8])


def test_drawn_signs_hold_the_observed_ones_first() -> None:
    signs = flip_signs(40, 200, rng=np.random.default_rng(0))
    assert signs.shape == (201, 40)
    assert (signs[0] == 1).all()
    assert set(np.unique(signs)) == {-1.0, 1.0}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_critical_value_is_where_p_crosses_the_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    null = rng.standard_normal(rng.integers(20, 300))
    critical = critical_value(null, 0.05)
    assert corrected_p(np.array([critical + 1e-6]), null)[0] <= 0.05
    assert corrected_p(np.array([critical - 1e-6]), null)[0] > 0.05


def test_no_t_is_large_enough_where_too_few_signs_exist() -> None:
    assert critical_value(np.arange(8.0), 0.05) == np.inf


def test_p_of_pure_noise_is_rarely_small() -> None:
    """Exact under symmetry: at most 5 % of 400 studies of 20 rows; 33 is the 99.9th percentile of
    a binomial of 400 and .05."""
    rng = np.random.default_rng(2)
    named = 0
    for _ in range(400):
        values = rng.standard_normal((12, 20))
        null = max_t_null(values, flip_signs(12, 200, rng=rng))
        named += corrected_p(t_statistic(values), null).min() <= 0.05
    assert 5 < named <= 33


def test_ratio_intervals_cover_the_ratio() -> None:
    """Nominally 95 %; bootstrap percentiles of 40 contexts fall a little short. 300 studies: 263
    is four standard deviations below .925."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(300):
        bottom = rng.uniform(1, 3, (40, 1))
        top = 0.4 * bottom + 0.3 * rng.standard_normal((40, 1))
        found = ratio_intervals(top, bottom, resampled_counts(40, 200, rng=rng))
        held += bool(found.low[0] <= 0.4 <= found.high[0])
    assert 263 <= held <= 297


def test_a_ratio_without_a_positive_denominator_is_undefined() -> None:
    found = ratio_intervals(np.ones((3, 2)), np.array([[1.0, -1]] * 3), np.ones((4, 3)))
    np.testing.assert_array_equal(np.isnan(found.estimate), [False, True])
    np.testing.assert_array_equal(np.isnan(found.low), [False, True])


@pytest.mark.parametrize(("temperature", "reached"), [(0.3, 0.61), (1.0, 0.87), (3.0, 0.98)])
def test_the_softmax_ceiling_of_least_squares_rows(temperature: float, reached: float) -> None:
    """Figures found by another implementation, at N = 20, P = 2 and condition 100."""
    contexts = simulate_contexts(SimulatedDesign(contexts=100), rng=np.random.default_rng(0))
    found = ceiling(rows(hypothesis_named("ols"), contexts), 1 / temperature)
    np.testing.assert_allclose(found, reached, atol=0.012)


def test_the_ceiling_of_two_examples_is_one_and_of_constant_rows_undefined() -> None:
    """Two numbers correlate +1 with anything that keeps their order."""
    np.testing.assert_allclose(ceiling(np.array([[[0.0, 3.0]]]), np.array([0.5, 2.0])), [1, 1])
    assert np.isnan(ceiling(np.ones((1, 2, 3)), 1.0))


def test_the_score_scale_is_the_sd_over_examples() -> None:
    """(0, 2) has sd 1, (0, 6) has sd 3: the root of the mean variance 5."""
    scores = np.array([[[[0.0, 2.0]], [[0.0, 6.0]]]])
    np.testing.assert_allclose(score_scale(scores), [np.sqrt(5)])
