"""Alike or not on what facts imply: paired shares by hand, by slow likelihood, by simulation."""

import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    verdict_of,
)
from analysis.claims.generalisation import (
    INFERRED,
    MARGIN,
    Alike,
    alike,
    both_alike,
    generalisation_finding,
    inside,
    paired_interval,
    score,
)
from analysis.design import Floats
from analysis.inference import ALPHA, Interval

Z = float(stats.norm.ppf(0.975))


def slow_score(gained: int, lost: int, pairs: int, shift: float) -> float:
    """The share of facts that only the second run answers, of greatest likelihood if the shares
    differ by `shift`, found numerically; then the difference over its standard error."""

    def minus_log_likelihood(second: float) -> float:
        chances = (second + shift, second, 1 - 2 * second - shift)
        counts = (gained, lost, pairs - gained - lost)
        return -sum(n * math.log(max(p, 1e-300)) for n, p in zip(counts, chances, strict=True))

    low, high = max(0.0, -shift), (1 - shift) / 2
    second = float(
        optimize.minimize_scalar(
            minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
        ).x
    )
    variance = (2 * second + shift - shift * shift) / pairs
    return ((gained - lost) / pairs - shift) / math.sqrt(variance)


@pytest.mark.parametrize("counts", [(0, 0, 12), (3, 1, 20), (1, 5, 20), (7, 7, 30), (20, 0, 25)])
@pytest.mark.parametrize("shift", [-0.3, -0.1, 0.1, 0.25])
def test_the_score_is_that_of_the_likeliest_shares(
    counts: tuple[int, int, int], shift: float
) -> None:
    assert score(*counts, shift) == pytest.approx(slow_score(*counts, shift), abs=1e-3)


def test_without_a_fact_that_differs_all_is_by_hand() -> None:
    """Variance n d (1 - d): statistic -sqrt(n d / (1 - d)), bound z^2 / (n + z^2)."""
    assert score(0, 0, 30, 0.1) == pytest.approx(-math.sqrt(30 * 0.1 / 0.9))
    bound = Z**2 / (30 + Z**2)
    assert paired_interval(0, 0, 30) == pytest.approx((0, -bound, bound))
    found = alike(np.ones(30), np.ones(30))
    assert found.p == pytest.approx(stats.norm.cdf(-math.sqrt(10 / 3)))


@given(st.integers(1, 60), st.data())
def test_an_interval_holds_its_estimate_and_is_mirrored(pairs: int, data: st.DataObject) -> None:
    gained = data.draw(st.integers(0, pairs))
    lost = data.draw(st.integers(0, pairs - gained))
    found, mirror = paired_interval(gained, lost, pairs), paired_interval(lost, gained, pairs)
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    assert mirror == pytest.approx((-found.estimate, -found.high, -found.low), abs=1e-6)
    wide = paired_interval(gained, lost, pairs, comparisons=2)
    assert wide.low <= found.low + 1e-9
    assert wide.high >= found.high - 1e-9
    for bound, side in ((found.low, Z), (found.high, -Z)):
        if abs(bound) < 1:
            assert score(gained, lost, pairs, bound) == pytest.approx(side, abs=1e-5)


def test_the_inside_of_a_margin_by_hand() -> None:
    assert inside(Interval(-0.02, -0.05, 0.03), 0.1) == pytest.approx((0.08, 0.05, 0.1))
    assert inside(Interval(0.3, 0.2, 0.5), 0.1) == pytest.approx((-0.2, -0.4, -0.1))
    assert inside(Interval(-0.3, -0.5, -0.2), 0.1) == pytest.approx((-0.2, -0.4, -0.1))


def answers(*, reversal: int, syllogism: int, stated: int = 100) -> dict[str, Floats]:
    """100 facts of each kind, the first so many right."""
    right = {"relation": stated, "premise": stated, "reversal": reversal, "syllogism": syllogism}
    return {kind: (np.arange(100) < count).astype(np.float64) for kind, count in right.items()}


@pytest.mark.parametrize(
    ("ft", "verdict"),
    [
        ({"reversal": 90, "syllogism": 60}, SUPPORTED),
        ({"reversal": 89, "syllogism": 61}, SUPPORTED),
        ({"reversal": 30, "syllogism": 60}, CONTRADICTED),
        ({"reversal": 90, "syllogism": 100}, CONTRADICTED),
        ({"reversal": 82, "syllogism": 60}, NOT_DISTINGUISHABLE),
    ],
)
def test_planted_answers_get_their_verdict(ft: Mapping[str, int], verdict: str) -> None:
    found = generalisation_finding(answers(reversal=90, syllogism=60), answers(**ft))
    assert verdict_of(found, found.p) == verdict
    mirrored = generalisation_finding(answers(**ft), answers(reversal=90, syllogism=60))
    assert verdict_of(mirrored, mirrored.p) == verdict


@pytest.mark.parametrize("kind", ["reversal", "syllogism"])
def test_runs_that_guess_are_not_called_alike(kind: str) -> None:
    """33 of 100: exact interval from .24; 35: from .26."""
    guessed = answers(**{"reversal": 90, "syllogism": 90, kind: 33})
    found = generalisation_finding(guessed, guessed)
    assert verdict_of(found, found.p) == NOT_DISTINGUISHABLE
    better = generalisation_finding(guessed, answers(**{"reversal": 90, "syllogism": 90, kind: 35}))
    assert better.beats


def test_both_kinds_must_be_alike() -> None:
    """The effect and p are those of the kind that differs more."""
    icl, ft = answers(reversal=90, syllogism=60), answers(reversal=90, syllogism=55)
    found = generalisation_finding(icl, ft)
    worse = alike(icl["syllogism"], ft["syllogism"])
    assert found.p == worse.p > alike(icl["reversal"], ft["reversal"]).p
    assert found.effect.estimate == pytest.approx(MARGIN - 0.05)
    assert "reversals 0.90 in ICL, 0.90 in FT" in found.figures


@pytest.mark.parametrize("run", ["ICL", "FT"])
def test_facts_that_are_not_recalled_are_not_judged(run: str) -> None:
    whole, part = answers(reversal=90, syllogism=60), answers(reversal=90, syllogism=60, stated=79)
    found = generalisation_finding(*((part, whole) if run == "ICL" else (whole, part)))
    assert verdict_of(found, found.p) == NOT_ASSESSABLE
    assert f"{run} recalls 0.79" in found.reason
    assert "recalls 1.00" in found.reason
    enough = generalisation_finding(whole, answers(reversal=90, syllogism=60, stated=80))
    assert not enough.reason


def test_one_kind_of_fact_that_is_not_recalled_is_enough() -> None:
    icl = answers(reversal=90, syllogism=60)
    ft = {**icl, "premise": np.zeros(100)}
    assert "FT recalls 0.00" in generalisation_finding(icl, ft).reason


def test_other_answers_than_right_and_wrong_are_refused() -> None:
    with pytest.raises(ValueError, match="each 0 or 1"):
        alike(np.array([0.5, 1]), np.ones(2))
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        alike(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match=r"\(0,\)"):
        alike(np.ones(0), np.ones(0))


@cache
def of_counts(gained: int, lost: int, pairs: int) -> Alike:
    icl, ft = np.zeros(pairs), np.zeros(pairs)
    icl[:gained] = 1
    ft[gained : gained + lost] = 1
    return alike(icl, ft)


def share_of_verdicts(
    verdict: str, pairs: int, shares: tuple[tuple[float, float], tuple[float, float]]
) -> float:
    """How often 2000 draws of both kinds get a verdict; `shares`: of each kind, of facts that only
    ICL and that only FT answers."""
    rng = np.random.default_rng(0)
    drawn = [rng.multinomial(pairs, (a, b, 1 - a - b), 2000)[:, :2] for a, b in shares]
    found = []
    for each in zip(*drawn, strict=True):
        judged = both_alike([of_counts(int(gained), int(lost), pairs) for gained, lost in each])
        found.append(verdict_of(judged, judged.p) == verdict)
    return float(np.mean(found))


EDGES = [(0.1, 0.0), (0.0, 0.1), (0.15, 0.05), (0.05, 0.15), (0.4, 0.3)]


@pytest.mark.parametrize("pairs", [20, 100])
@pytest.mark.parametrize("edge", EDGES)
def test_at_the_margin_neither_verdict_is_given_too_often(
    pairs: int, edge: tuple[float, float]
) -> None:
    """One kind at the margin and the other equal; and both at the margin. 2000 draws: the
    error of a share of .05 is .005."""
    most = ALPHA + 3 * 0.005
    assert share_of_verdicts(SUPPORTED, pairs, (edge, (0.0, 0.0))) <= most
    assert share_of_verdicts(CONTRADICTED, pairs, (edge, edge)) <= most


def test_alike_is_found_where_few_facts_differ() -> None:
    assert share_of_verdicts(SUPPORTED, 100, ((0.02, 0.02), (0.02, 0.02))) > 0.8
    assert share_of_verdicts(CONTRADICTED, 60, ((0.4, 0.05), (0.02, 0.02))) > 0.8


def test_kinds_are_those_that_are_judged() -> None:
    assert list(INFERRED) == ["reversal", "syllogism"]


def contradicted_over_sets(sets: int, draws: int) -> float:
    """How often a kind's difference is put beyond the margin where its mean is at the margin, ICL
    right on half and FT's share varying by .2 from set to set; 20 facts a set."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(draws):
        share = np.clip(0.6 + 0.2 * rng.standard_normal(sets), 0, 1)
        icl = (rng.random((sets, 20)) < 0.5).astype(float).ravel()
        ft = (rng.random((sets, 20)) < share[:, None]).astype(float).ravel()
        wide = alike(icl, ft, sets=sets).wide
        found.append(wide.low > 0.1 or wide.high < -0.1)
    return float(np.mean(found))


def test_sets_that_differ_are_not_taken_for_more_facts() -> None:
    """Nominally 2.5 % of a side, shared by two kinds; facts pooled over sets give .1."""
    assert contradicted_over_sets(5, 400) <= 0.03


def test_the_wider_of_facts_and_sets_by_hand() -> None:
    """Differences of 1/2 and 0: mean 1/4, standard error 1/4, t with one degree of freedom."""
    icl, ft = np.array([1.0, 1, 1, 0]), np.array([1.0, 0, 1, 0])
    found = alike(icl, ft, sets=2)
    reach = 0.25 * np.tan(np.pi * 0.475)
    assert found.difference == Interval(0.25, max(-1.0, 0.25 - reach), min(1.0, 0.25 + reach))
    assert found.p == pytest.approx(max(alike(icl, ft).p, 0.5 + np.arctan(0.6) / np.pi))
