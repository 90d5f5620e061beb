"""The error of a mean over sets and queries: by hand, and how often its interval misses."""

import math

import numpy as np
import pytest

from analysis.claims.crossed_mean import MeanOf, mean_over_both


def test_the_error_is_that_of_a_crossed_design_by_hand() -> None:
    # Values a_i + b_j without rest: a = -1, 1 (MS_sets = 3 x 2), b = -1, 0, 1 (MS_queries = 2 x 1).
    # Variance of the mean (6 + 2 - 0) / 6; degrees of freedom 8^2 / (6^2 / 1 + 2^2 / 2).
    values = np.array([[-1.0], [1.0]]) + np.array([[-1.0, 0.0, 1.0]])
    mean = mean_over_both(values)
    assert mean.estimate == 0
    assert mean.error == pytest.approx(math.sqrt(8 / 6))
    assert mean.freedom == pytest.approx(64 / 38)
    # One set: the mean of three numbers with standard deviation 1.
    assert mean_over_both(values[:1]) == pytest.approx((-1, 1 / math.sqrt(3), 2))
    # Rest alone: interaction of +1 and -1 leaves no differences between sets or queries.
    flat = mean_over_both(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert (flat.error, flat.freedom) == (0, 1)
    with pytest.raises(ValueError, match="2 queries"):
        mean_over_both(values[:, :1])


@pytest.mark.parametrize(
    "spread", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.1), (0.0, 1.0, 0.1), (0.5, 0.5, 0.5)]
)
@pytest.mark.parametrize("sets", [1, 5])
def test_a_mean_of_nothing_is_above_0_in_at_most_5_percent(
    spread: tuple[float, float, float], sets: int
) -> None:
    """400 data sets: 5 % is 20, and more than 33 have a chance of .2 %. Of one set by itself what
    sets have in common is not seen, so that there it is left out."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        values = spread[0] * (sets > 1) * rng.normal(size=(sets, 1))
        values = values + spread[1] * rng.normal(size=(1, 8))
        values = values + spread[2] * rng.normal(size=(sets, 8))
        wrong += mean_over_both(values).above(0.0) <= 0.05
    assert wrong <= 33


def test_a_mean_without_spread_is_known() -> None:
    assert MeanOf(0.5, 0.0, 3.0).above(0.4) == 0
    assert MeanOf(0.5, 0.0, 3.0).above(0.5) == 1
    assert MeanOf(0.5, 0.0, 3.0).interval(0.95) == (0.5, 0.5)
