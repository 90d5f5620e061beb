"""Updates that have nothing in common, 2,000 times: what each variant of SimAOU makes of them."""

import math
from typing import NamedTuple

import numpy as np
import pytest

from analysis.similarity.measures import MEASURES
from analysis.similarity.records import Floats, Runs
from tests.analysis.similarity.records import record

DRAWS, WIDTH = 2000, 256
VARIANTS = ("SimAOU", "SimAOU (orthogonal)", "SimAOU (normalised)", "SimAOU (floor)")


class Found(NamedTuple):
    mean: float
    error: float


def unrelated(share: float, ratio: float) -> dict[str, Found]:
    """Both runs are (1 - share) h_ZSL + share u, with a u of their own, `ratio` times as long as
    h_ZSL: as attention mixes what it reads. Means over draws with their standard errors."""
    zsl = record(0)
    values: dict[str, list[float]] = {key: [] for key in VARIANTS}
    rng = np.random.default_rng(round(1000 * (share + ratio)))

    def run(h: Floats) -> Floats:
        other = ratio * rng.standard_normal(h.shape)
        return np.asarray((1 - share) * h + share * other)

    for _ in range(DRAWS):
        h = rng.standard_normal((1, WIDTH))
        runs = Runs(*(zsl._replace(h=one) for one in (run(h), h, run(h))))
        for key in VARIANTS:
            values[key].append(float(MEASURES[key].of(runs)[0]))
    return {
        key: Found(float(np.mean(some)), float(np.std(some, ddof=1) / math.sqrt(DRAWS)))
        for key, some in values.items()
    }


@pytest.mark.parametrize(("ratio", "expected"), [(1.0, 0.50), (1.883, 0.22)])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_shrinking_alone_looks_like_likeness(share: float, ratio: float, expected: float) -> None:
    """Each update is share (u - h): they share share^2 |h|^2 of share^2 (|h|^2 + |u|^2), a cosine
    of 1 / (1 + ratio^2) whatever the share. Only the orthogonal variant is 0."""
    found = unrelated(share, ratio)
    assert 1 / (1 + ratio**2) == pytest.approx(expected, abs=0.001)
    assert found["SimAOU"].mean == pytest.approx(expected, abs=0.005)
    orthogonal = found["SimAOU (orthogonal)"]
    assert abs(orthogonal.mean) < 4 * orthogonal.error
    # The cosine of random directions has a sd of about 1 / sqrt(width).
    assert orthogonal.error == pytest.approx(1 / math.sqrt(WIDTH * DRAWS), rel=0.1)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_unrelated_updates_reach_the_floor_of_the_normalised_variant(share: float) -> None:
    found = unrelated(share, 1.0)
    floor = found["SimAOU (floor)"].mean
    assert found["SimAOU (normalised)"].mean == pytest.approx(floor, abs=0.01)
    # cos(h_run, h) = (1 - s) / sqrt((1 - s)^2 + s^2) on both sides.
    along = (1 - share) / math.hypot(1 - share, share)
    assert floor == pytest.approx((1 - along) / 2, abs=0.005)


def test_updates_that_leave_the_length_alone_are_0_in_both_plain_variants() -> None:
    """h + u: nothing shrinks, and the normalised variant alone has a floor above 0."""
    zsl, rng = record(0), np.random.default_rng(5)
    values: dict[str, list[float]] = {key: [] for key in VARIANTS}
    for _ in range(DRAWS):
        h = rng.standard_normal((1, WIDTH))
        sides = (h + rng.standard_normal((1, WIDTH)), h, h + rng.standard_normal((1, WIDTH)))
        for key in VARIANTS:
            runs = Runs(*(zsl._replace(h=one) for one in sides))
            values[key].append(float(MEASURES[key].of(runs)[0]))
    for key in ("SimAOU", "SimAOU (orthogonal)"):
        assert abs(np.mean(values[key])) < 4 * np.std(values[key]) / math.sqrt(DRAWS)
    # cos(h_run, h) = 1 / sqrt 2.
    assert np.mean(values["SimAOU (floor)"]) == pytest.approx((1 - math.sqrt(0.5)) / 2, abs=0.005)
    assert np.mean(values["SimAOU (normalised)"]) == pytest.approx(
        np.mean(values["SimAOU (floor)"]), abs=0.01
    )
