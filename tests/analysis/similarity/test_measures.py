"""Every measure against plain loops over one number at a time, and on cases of known answer."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from analysis.similarity.measures import MEASURES
from analysis.similarity.records import Floats, Runs
from analysis.similarity.vectors import cosine, mean_defined
from tests.analysis.similarity.records import HEADS, LAYERS, WIDTH, Made, record

SEEDS = st.integers(0, 2**31 - 1)


def runs(seed: int = 0) -> Runs:
    return Runs(*(record(3 * seed + place) for place in range(3)))


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def cos(a: Sequence[float], b: Sequence[float]) -> float:
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def less(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]


def unit(a: Sequence[float]) -> list[float]:
    return [x / math.sqrt(dot(a, a)) for x in a]


def orthogonal(a: Sequence[float], to: Sequence[float]) -> list[float]:
    along = dot(a, to) / dot(to, to)
    return [x - along * y for x, y in zip(a, to, strict=True)]


def mid(a: Sequence[float]) -> list[float]:
    mean = math.fsum(a) / len(a)
    return [x - mean for x in a]


def by_layer(
    of: Callable[[list[float], list[float], list[float]], float],
) -> Callable[[Runs], list[float]]:
    """A figure of h, one layer at a time."""
    return lambda r: [of(*(list(map(float, one.h[layer])) for one in r)) for layer in range(LAYERS)]


def by_head(
    of: Callable[[list[float], list[float], list[float]], float],
) -> Callable[[Runs], list[float]]:
    """A figure of scores, one head at a time, then the mean over heads."""
    return lambda r: [
        math.fsum(
            of(*(list(map(float, one.scores[layer, head])) for one in r)) for head in range(HEADS)
        )
        / HEADS
        for layer in range(LAYERS)
    ]


def variation(a: Floats, b: Floats) -> float:
    return math.fsum(abs(math.exp(x) - math.exp(y)) for x, y in zip(a, b, strict=True)) / 2


def top(a: Floats) -> set[int]:
    return set(sorted(range(len(a)), key=lambda word: (-a[word], word))[:10])


SLOW: dict[str, Callable[[Runs], list[float]]] = {
    "SimAOU": by_layer(lambda i, z, f: cos(less(i, z), less(f, z))),
    "SimAOU (normalised)": by_layer(
        lambda i, z, f: cos(less(unit(i), unit(z)), less(unit(f), unit(z)))
    ),
    "SimAOU (orthogonal)": by_layer(
        lambda i, z, f: cos(orthogonal(less(i, z), z), orthogonal(less(f, z), z))
    ),
    "SimAOU (floor)": by_layer(lambda i, z, f: math.sqrt((1 - cos(i, z)) * (1 - cos(f, z))) / 2),
    "SimAM": by_head(lambda i, z, f: cos(i, f)),
    "SimAM (before)": by_head(lambda i, z, f: cos(i, z)),
    "SimAM (centred)": by_head(lambda i, z, f: cos(mid(i), mid(f))),
    "SimAM (before, centred)": by_head(lambda i, z, f: cos(mid(i), mid(z))),
    "SimAM-delta": by_head(lambda i, z, f: cos(less(i, z), less(f, z))),
    "SimAM-delta (centred)": by_head(lambda i, z, f: cos(mid(less(i, z)), mid(less(f, z)))),
    "update norm (ICL)": by_layer(
        lambda i, z, f: math.sqrt(dot(less(i, z), less(i, z)) / dot(z, z))
    ),
    "update norm (FT)": by_layer(
        lambda i, z, f: math.sqrt(dot(less(f, z), less(f, z)) / dot(z, z))
    ),
    "top-10 overlap": lambda r: [len(top(r.icl.next_logp) & top(r.ft.next_logp)) / 10],
    "total variation": lambda r: [variation(r.icl.next_logp, r.ft.next_logp)],
    "total variation (ICL, ZSL)": lambda r: [variation(r.icl.next_logp, r.zsl.next_logp)],
}


def test_every_measure_has_a_slow_twin() -> None:
    assert set(SLOW) == set(MEASURES)


@pytest.mark.parametrize("key", MEASURES)
@pytest.mark.parametrize("seed", range(3))
def test_a_measure_is_its_slow_twin(key: str, seed: int) -> None:
    assert_allclose(MEASURES[key].of(runs(seed)), SLOW[key](runs(seed)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("key", MEASURES)
@given(seed=SEEDS)
def test_a_measure_keeps_its_bounds_and_its_arguments(key: str, seed: int) -> None:
    given_runs = runs(seed)
    before = [np.array(part) for one in given_runs for part in (one.h, one.scores, one.next_logp)]
    found = MEASURES[key].of(given_runs)
    low, high = MEASURES[key].bounds
    assert (found >= low - 1e-12).all()
    assert (found <= high + 1e-12).all()
    after = [part for one in given_runs for part in (one.h, one.scores, one.next_logp)]
    assert all(map(np.array_equal, before, after))


@pytest.mark.parametrize("key", ["SimAOU", "SimAOU (orthogonal)", "SimAOU (normalised)"])
def test_fine_tuning_that_is_in_context_learning_scores_one(key: str) -> None:
    one = runs(5)
    assert_allclose(MEASURES[key].of(one._replace(ft=one.icl)), np.ones(LAYERS), atol=1e-12)


def test_an_update_along_the_output_itself_has_no_orthogonal_part() -> None:
    one = runs(7)
    shorter = made(one.zsl)._replace(h=0.7 * one.zsl.h)
    assert np.isnan(MEASURES["SimAOU (orthogonal)"].of(one._replace(ft=shorter))).all()


def test_no_update_has_no_direction() -> None:
    one = runs(6)
    for key in ("SimAOU", "SimAOU (orthogonal)", "SimAOU (normalised)", "SimAM-delta"):
        assert np.isnan(MEASURES[key].of(one._replace(ft=one.zsl))).all()
    assert_allclose(MEASURES["update norm (FT)"].of(one._replace(ft=one.zsl)), 0)


def test_what_rounding_parts_has_no_direction() -> None:
    """A run again, as float32 has it: below 1e-5 of h and of the scores; above it counts."""
    one, noise = runs(8), runs(9)
    keys = ("SimAOU", "SimAOU (orthogonal)", "SimAOU (normalised)", "SimAM-delta")
    for size, defined in ((1e-7, False), (1e-3, True)):
        again = made(one.zsl)._replace(
            h=one.zsl.h + size * noise.icl.h, scores=one.zsl.scores + size * noise.icl.scores
        )
        for key in (*keys, "SimAM-delta (centred)"):
            found = MEASURES[key].of(one._replace(icl=again))
            assert np.isfinite(found).all() == defined
            assert np.isnan(found).all() != defined


def test_the_floor_is_a_quarter_at_the_norm_ratio_that_was_published() -> None:
    """Updates orthogonal to h and sqrt(3) times as long: cos(h_run, h_ZSL) = 1/2."""
    zsl = record(0)._replace(h=np.eye(LAYERS, WIDTH))
    sides = [np.eye(LAYERS, WIDTH) + math.sqrt(3) * np.eye(LAYERS, WIDTH, k) for k in (4, 8)]
    icl, ft = (zsl._replace(h=side) for side in sides)
    assert_allclose(MEASURES["SimAOU (floor)"].of(Runs(icl, zsl, ft)), 0.25)
    assert_allclose(MEASURES["SimAOU (normalised)"].of(Runs(icl, zsl, ft)), 0.25)


@given(seed=SEEDS, size=st.floats(1e-3, 1e3), shift=st.floats(-10, 10))
def test_what_a_softmax_does_not_see_changes_no_centred_measure(
    seed: int, size: float, shift: float
) -> None:
    one = runs(seed)
    moved = one._replace(ft=made(one.ft)._replace(scores=one.ft.scores + shift))
    for key in ("SimAM (centred)", "SimAM-delta (centred)"):
        assert_allclose(MEASURES[key].of(moved), MEASURES[key].of(one), atol=1e-9)
    longer = one.zsl.h + size * (one.ft.h - one.zsl.h)
    scaled = one._replace(ft=made(one.ft)._replace(h=longer))
    for key in ("SimAOU", "SimAOU (orthogonal)"):
        assert_allclose(MEASURES[key].of(scaled), MEASURES[key].of(one), atol=1e-7)


def made(one: object) -> Made:
    assert isinstance(one, Made)
    return one


def test_an_undefined_cosine_is_left_out_and_not_zero() -> None:
    pairs = np.array([[[1.0, 0], [1, 0]], [[0, 0], [1, 0]], [[1, 1], [1, 0]]])
    values = cosine(pairs[:, 0], pairs[:, 1])
    assert np.isnan(values[1])
    assert float(mean_defined(values)) == pytest.approx((1 + math.sqrt(0.5)) / 2)  # .8536


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_cosine_of_tiny_or_huge_vectors_is_what_it_is(size: float) -> None:
    assert float(cosine(size * np.array([1.0, 1]), np.array([1.0, 0]))) == pytest.approx(
        math.sqrt(0.5)
    )
