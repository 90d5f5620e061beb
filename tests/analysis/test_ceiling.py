"""Softmax weights beside a row: the correlation and what it could be at most."""

import numpy as np

from analysis.ceiling import ceiling, correlation_with


def test_the_correlation_is_that_of_each_query_averaged() -> None:
    rng = np.random.default_rng(0)
    weights, rows = rng.random((5, 3, 7)), rng.standard_normal((5, 3, 7))
    each = [[np.corrcoef(weights[c, m], rows[c, m])[0, 1] for m in range(3)] for c in range(5)]
    found = correlation_with(weights, rows)
    np.testing.assert_allclose(found.estimate, np.mean(each))
    assert found.low < found.estimate < found.high


def test_a_constant_row_is_left_out_and_not_counted_as_zero() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 2, 6))
    weights = rows.copy()
    weights[:, 1] = 0.25
    np.testing.assert_allclose(correlation_with(weights, rows).estimate, 1.0)
    assert np.isnan(correlation_with(np.ones((4, 2, 6)), rows).estimate)


def test_a_softmax_of_the_row_itself_reaches_its_ceiling() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4, 9))
    unit = (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)
    for scale in (0.3, 1.0, 3.0):
        weights = np.exp(scale * unit)
        weights /= weights.sum(-1, keepdims=True)
        found = correlation_with(weights, rows).estimate
        np.testing.assert_allclose(found, ceiling(rows, scale))
