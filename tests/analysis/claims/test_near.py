"""C13: planted slopes, error rates by simulation, and what is said of labels."""

import math

import numpy as np
import pytest

from analysis.claims.finding import CONTRADICTED, SUPPORTED, verdict_of
from analysis.claims.near import labels_said, margin_of, near_finding
from analysis.design import Floats


def drawn(
    rng: np.random.Generator, *, slope: float, queries: int = 24, shown: int = 8
) -> tuple[Floats, Floats, Floats]:
    """Effects of slot, length, label match and `slope` times similarity, which goes with match.

    Queries differ in how much demonstrations move them, and in how alike they are to any.
    """
    labels, asked = rng.integers(0, 2, shown), rng.integers(0, 2, queries)
    matches = (labels == asked[:, None]).astype(float)
    similarity = rng.gamma(2, 0.02, (queries, shown)) + 0.03 * matches
    similarity += rng.gamma(2, 0.02, (queries, 1)) + 0.001 * (length := rng.integers(5, 40, shown))
    moved = rng.gamma(2, 0.5, (queries, 1))
    own = moved * (0.05 * np.arange(shown) + 0.02 * length + 0.4 * matches)
    return own + slope * similarity + 0.3 * rng.standard_t(4, own.shape), similarity, matches


def test_where_similarity_does_nothing_it_is_seldom_found() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        one = near_finding(*drawn(rng, slope=0.0, queries=12), rng=rng)
        found.append((one.p <= 0.05, verdict_of(one, one.p) == SUPPORTED))
    assert np.mean(found, axis=0).max() <= 0.07


def test_a_planted_slope_is_supported_and_its_opposite_contradicted() -> None:
    rng = np.random.default_rng(2)
    up = near_finding(*drawn(rng, slope=6.0, queries=60), rng=rng)
    assert verdict_of(up, up.p) == SUPPORTED
    assert up.effect.low < 6 < up.effect.high
    down = near_finding(*drawn(rng, slope=-6.0, queries=60), rng=rng)
    assert verdict_of(down, down.p) == CONTRADICTED
    assert down.p > 0.9


def test_the_effect_is_the_slope_less_the_mean_of_its_null() -> None:
    """Similarity that is alike for all queries but for noise: slope 2 by least squares."""
    rng = np.random.default_rng(3)
    similarity, matches = rng.normal(size=(20, 6)), np.zeros((20, 6))
    found = near_finding(2 * similarity, similarity, matches, rng=rng)
    assert "2 nats for one unit" in found.figures
    assert found.effect.estimate == pytest.approx(2, abs=0.05)
    assert found.p == pytest.approx(1 / 501)
    assert margin_of(2 * similarity, similarity, matches) == pytest.approx(0.2)


def test_what_cannot_be_asked_is_not() -> None:
    rng = np.random.default_rng(4)
    few = near_finding(*np.zeros((3, 9, 4)), rng=rng)
    assert few.reason.startswith("9 queries and 4 demonstrations are too few")
    flat = near_finding(rng.normal(size=(12, 4)), np.ones((12, 4)), np.zeros((12, 4)), rng=rng)
    assert "does not differ" in flat.reason
    assert math.isnan(flat.p)


@pytest.mark.parametrize(
    ("labels", "asked", "words"),
    [
        ([0, 0, 1, 1], [0, 1, 1], ""),
        ([0, 0, 1, 1, 1], [0, 1], ""),
        ([0, 1, 1, 1], [0, 1], "3 and 1 demonstrations"),
        ([1, 1, 1, 1], [0, 1], "4 and 0 demonstrations"),
        ([5, 6, 7, 8], [1, 2, 5], ""),
        ([5, 5, 6, 7], [1, 5], ""),
    ],
)
def test_labels_that_are_not_balanced_are_said(
    labels: list[int], asked: list[int], words: str
) -> None:
    said = labels_said(np.equal.outer(asked, labels).astype(float))
    assert words in said
    assert bool(words) == bool(said)
