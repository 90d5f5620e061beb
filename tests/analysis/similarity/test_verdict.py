"""What is said of a comparison, and the counts and intervals behind it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.inference import UNDEFINED, Interval
from analysis.similarity.recovered import recovered, recovered_over_sets, share_right
from analysis.similarity.resampling import (
    draw_resamples,
    paired,
    two_way_interval,
    two_way_ratio,
)
from analysis.similarity.verdict import (
    MORE,
    NO_MORE,
    NOT_ASSESSABLE,
    NOT_BEYOND_TWINS,
    PRIMARY,
    Judged,
    says,
    verdict_on,
)

ABOVE, AROUND = Interval(0.1, 0.05, 0.15), Interval(0.01, -0.02, 0.04)


def judged(
    difference: Interval = ABOVE,
    p: float = 0.01,
    *,
    key: str = PRIMARY,
    beyond: tuple[Interval, ...] = (),
) -> Judged:
    matched, mismatched = Interval(0.3, 0.2, 0.4), Interval(0.2, 0.1, 0.3)
    return Judged(key, matched, mismatched, difference, p, "other demonstrations", beyond)


def test_the_words() -> None:
    assert says(judged()) == MORE
    assert says(judged(beyond=(ABOVE, ABOVE))) == MORE
    assert says(judged(beyond=(ABOVE, AROUND))) == NOT_BEYOND_TWINS
    assert says(judged(beyond=(UNDEFINED,))) == NOT_BEYOND_TWINS
    assert says(judged(p=0.06)) == NO_MORE
    assert says(judged(AROUND)) == NO_MORE
    assert says(judged(UNDEFINED, math.nan)) == NOT_ASSESSABLE


def test_the_sentence_names_the_mismatch_and_its_figures() -> None:
    rest = [judged(key="Delta W"), judged(AROUND, 0.4, key="SimAOU")]
    found = verdict_on([judged(), *rest], reason="", mismatches={"other demonstrations": "others"})
    assert found.label == MORE
    assert "more alike than ICL and FT on others" in found.sentence
    assert "0.300 against 0.200, difference 0.100 [0.050, 0.150]" in found.sentence
    assert found.sentence.endswith("higher there, no twin beside: Delta W.")
    beside = [judged(beyond=(ABOVE,)), judged(key="Delta W", beyond=(ABOVE,))]
    twin = verdict_on(beside, reason="", mismatches={})
    assert twin.sentence.endswith("higher there, beyond the twins: Delta W.")
    none = verdict_on([judged(AROUND, 1.0), *rest[1:]], reason="", mismatches={})
    assert none.label == NO_MORE
    assert "None of the other 1" in none.sentence


def test_what_cannot_be_judged_says_why() -> None:
    assert "too few" in verdict_on([judged()], reason="too few", mismatches={}).sentence
    undefined = judged(UNDEFINED, math.nan)
    found = verdict_on([undefined, judged(key="Delta W")], reason="", mismatches={})
    assert found.label == NOT_ASSESSABLE
    assert "update is zero" in found.sentence
    assert "nan" not in found.sentence
    assert verdict_on([], reason="", mismatches={}).label == NOT_ASSESSABLE


@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_resamples_drawn_once_serve_as_those_drawn_each_time(
    sets: int, queries: int, seed: int
) -> None:
    values = np.random.default_rng(seed).standard_normal((sets, queries))
    drawn = draw_resamples(sets, queries, rng=np.random.default_rng(seed))
    once = two_way_interval(values, rng=drawn)
    each = two_way_interval(values, rng=np.random.default_rng(seed))
    np.testing.assert_allclose(once, each, atol=1e-12)
    ratio = two_way_ratio(values, np.ones_like(values), rng=drawn)
    np.testing.assert_allclose(ratio, once, atol=1e-12)


def test_few_queries_reach_no_small_p() -> None:
    """All three differences are above 0: flipping their signs reaches 1/8, no less."""
    matched, rng = np.ones((1, 3, 2)), np.random.default_rng(0)
    assert paired(matched, np.zeros((1, 3, 2)), rng=rng).p == pytest.approx(1 / 8)
    assert paired(np.ones((1, 40, 2)), np.zeros((1, 40, 2)), rng=rng).p < 0.001


def test_counts_over_sets_are_added() -> None:
    rng = np.random.default_rng(1)
    zsl, icl, ft = rng.random((3, 4, 30)) < 0.5
    found = recovered_over_sets(zsl, icl, ft, rng=rng)
    numerator = sum(
        bool(not zsl[s, q] and ft[s, q] and icl[s, q]) for s in range(4) for q in range(30)
    )
    denominator = sum(bool(not zsl[s, q] and ft[s, q]) for s in range(4) for q in range(30))
    assert (found.numerator, found.denominator) == (numerator, denominator)
    assert found.value.estimate == pytest.approx(numerator / denominator)
    assert found.value.low < found.value.estimate < found.value.high
    assert recovered_over_sets(zsl[:1], icl[:1], ft[:1], rng=rng) == recovered(
        zsl[0], icl[0], ft[0]
    )


def test_nothing_to_recover_is_undefined_not_zero() -> None:
    right = np.ones((2, 5), dtype=bool)
    found = recovered_over_sets(right, right, right, rng=np.random.default_rng(0))
    assert (found.numerator, found.denominator) == (0, 0)
    assert math.isnan(found.value.estimate)


def test_five_of_five_right() -> None:
    """The exact interval (Clopper-Pearson): low = .025^(1/5)."""
    for sets in (1, 3):
        found = share_right(np.ones((sets, 5), dtype=bool), rng=np.random.default_rng(0))
        np.testing.assert_allclose(found, (1.0, 0.025 ** (1 / 5), 1.0))
    mixed = np.array([[True, False, True], [True, True, False]])
    assert share_right(mixed, rng=np.random.default_rng(0)).estimate == pytest.approx(4 / 6)
