"""Equal order sensitivity: how often it is claimed where it is not, and found where it is."""

import math
from typing import Any

import numpy as np
import pytest

from analysis.claims.crossed_mean import MeanOf
from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    verdict_of,
)
from analysis.claims.order import inside, order_finding

CHANGE = np.full((5, 8), 0.5)


def sensitivities(
    ratio: float,
    rng: np.random.Generator,
    *,
    sets: int = 5,
    queries: int = 8,
    spread: tuple[float, float, float] = (0.2, 0.2, 0.3),
) -> tuple[Any, Any]:
    """ICL's and FT's (set, query): log ratio with standard deviations of sets, queries, rest."""
    of_sets, of_queries, rest = spread
    log_ratio = (
        math.log(ratio)
        + rng.normal(0, of_sets, (sets, 1))
        + rng.normal(0, of_queries, (1, queries))
        + rng.normal(0, rest, (sets, queries))
    )
    ft = np.exp(rng.normal(-2, 0.5, (sets, queries)))
    return ft * np.exp(log_ratio), ft


def found(icl: Any, ft: Any, **options: Any) -> Any:
    change = np.full(icl.shape, 0.5)
    return order_finding(icl, ft, **{"icl_change": change, "ft_change": change, **options})


def supported(one: Any) -> bool:
    return verdict_of(one, one.p) == SUPPORTED


@pytest.mark.parametrize("ratio", [0.5, 2.0])
@pytest.mark.parametrize(
    "spread", [(0.2, 0.2, 0.3), (0.4, 0.05, 0.05), (0.05, 0.4, 0.05), (0.0, 0.0, 0.3)]
)
def test_equality_is_claimed_in_at_most_5_percent_at_the_bounds(
    ratio: float, spread: tuple[float, float, float]
) -> None:
    """400 data sets: 5 % is 20, and more than 33 have a chance of .2 %."""
    rng = np.random.default_rng(0)
    claimed = sum(supported(found(*sensitivities(ratio, rng, spread=spread))) for _ in range(400))
    assert claimed <= 33


def test_equal_sensitivities_are_found() -> None:
    rng = np.random.default_rng(1)
    claimed = sum(supported(found(*sensitivities(1, rng))) for _ in range(100))
    assert claimed >= 80
    one = found(*sensitivities(1, rng))
    assert one.effect.low > 0
    assert "(90 %)" in one.figures


@pytest.mark.parametrize("ratio", [0.1, 10.0])
def test_a_ratio_far_outside_contradicts(ratio: float) -> None:
    one = found(*sensitivities(ratio, np.random.default_rng(2)))
    assert one.effect.high < 0
    assert one.p > 0.99
    assert verdict_of(one, one.p) == CONTRADICTED


def test_what_lies_on_both_sides_of_a_bound_is_neither() -> None:
    one = found(*sensitivities(2, np.random.default_rng(3)))
    assert verdict_of(one, one.p) == NOT_DISTINGUISHABLE


def test_swapping_the_runs_changes_nothing() -> None:
    icl, ft = sensitivities(1.4, np.random.default_rng(4))
    np.testing.assert_allclose(found(icl, ft).effect, found(ft, icl).effect, atol=1e-12)
    assert found(icl, ft).p == pytest.approx(found(ft, icl).p)


def test_p_and_the_interval_of_90_percent_agree() -> None:
    """Two one-sided tests at 5 % hold where the 90 % interval is inside: at the very edge too."""
    mean = MeanOf(0.2, 0.1, 7.0)
    limit = 0.2 + 0.1 * 1.894578605  # the 95th percentile of t with 7 degrees of freedom
    assert inside(mean, limit).low == pytest.approx(0, abs=1e-8)
    assert 1 - mean.above(limit) == pytest.approx(0.05, abs=1e-8)


def test_the_bounds_of_the_effect_by_hand() -> None:
    # Without spread the interval is a point: log 2 - log 1.5, whichever way round.
    icl = np.full((5, 8), 0.3)
    one = found(icl, icl / 1.5)
    np.testing.assert_allclose(one.effect, math.log(2) - math.log(1.5))
    assert one.p == pytest.approx(2.0**-8)
    assert found(icl, icl).effect.estimate == pytest.approx(math.log(2))
    assert found(icl, icl / 3).effect.high == pytest.approx(math.log(2) - math.log(3))


@pytest.mark.parametrize(("run", "said"), [("icl_change", "ICL"), ("ft_change", "FT")])
def test_answers_that_hardly_change_are_not_assessed(run: str, said: str) -> None:
    some = sensitivities(1, np.random.default_rng(5))
    one = found(*some, **{run: np.full((5, 8), 0.08)})
    assert one.reason.startswith(f"{said} changes next-token probabilities by 0.04")
    assert verdict_of(one, one.p) == NOT_ASSESSABLE
    assert found(*some, **{run: np.full((5, 8), np.nan)}).reason


def test_few_queries_are_not_assessed() -> None:
    some = sensitivities(1, np.random.default_rng(6), queries=7)
    assert "of 7 queries, at least 8" in found(*some).reason
    # Nine claims corrected by Holm: 2^-8 times 9 is below .05 and 2^-7 times 9 above.
    assert 2.0**-8 * 9 < 0.05 < 2.0**-7 * 9


def test_few_sets_are_not_assessed() -> None:
    some = sensitivities(1, np.random.default_rng(6), sets=4)
    assert "of 4 sets of demonstrations, at least 5" in found(*some).reason


def test_a_set_that_diverged_is_left_out() -> None:
    icl, ft = sensitivities(1, np.random.default_rng(7), sets=6)
    want = found(icl[1:], ft[1:])
    ft[0] = np.nan
    assert found(icl, ft).effect == want.effect
    ft[:] = np.nan
    assert "of 0 sets" in found(icl, ft).reason


def test_one_step_on_all_demonstrations_is_shown() -> None:
    icl, ft = sensitivities(1, np.random.default_rng(8))
    shown = found(icl, ft, full_batch=np.full((5, 8), 2e-7)).figures
    assert shown.endswith("of one step on all demonstrations 2e-07")
    assert "all demonstrations" not in found(icl, ft, full_batch=np.full((5, 8), np.nan)).figures
