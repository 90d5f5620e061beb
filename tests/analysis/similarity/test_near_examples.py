"""The slope of effects on similarity: against dummies in least squares, and planted ones."""

import numpy as np
import pytest

from analysis.similarity.near_examples import near_effect, slope


def test_the_slope_is_that_of_a_regression_with_dummies() -> None:
    rng = np.random.default_rng(0)
    y, s, m = rng.normal(size=(3, 6, 4))
    dummies = [np.eye(6)[q].tolist() + np.eye(4)[i].tolist() for q in range(6) for i in range(4)]
    design = np.column_stack([s.ravel(), m.ravel(), np.array(dummies)])
    expected = np.linalg.lstsq(design, y.ravel(), rcond=None)[0][0]
    assert slope(y, s, m) == pytest.approx(expected, abs=1e-10)


def test_a_planted_slope_is_found_and_its_null_holds_zero() -> None:
    rng = np.random.default_rng(1)
    s, noise = rng.normal(size=(2, 30, 8))
    m = rng.integers(0, 2, (30, 8)).astype(float)
    levels = 5 * rng.normal(size=(1, 8)) + 3 * rng.normal(size=(30, 1))
    found = near_effect(2 * s + m + levels + 0.1 * noise, s, m, rng=rng)
    assert found.effect.estimate == pytest.approx(2, abs=0.05)
    assert found.effect.low < 2 < found.effect.high
    assert found.null.low < 0 < found.null.high < found.effect.low


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="3 queries"):
        near_effect(*np.zeros((3, 2, 4)), rng=np.random.default_rng(0))
