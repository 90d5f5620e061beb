"""C10: the position between floor and ceiling, worked by hand and planted."""

import math

import numpy as np
import pytest

from analysis.claims.finding import (
    CONTRADICTED,
    NOT_ASSESSABLE,
    NOT_DISTINGUISHABLE,
    SUPPORTED,
    Finding,
    verdict_of,
)
from analysis.claims.output_change import Variation, alike, output_change_finding
from tests.analysis.claims.planted import resamples, variation


def judged(given: Variation) -> Finding:
    return output_change_finding(given, rng=resamples(*given.matched.shape))


def says(found: Finding) -> str:
    return verdict_of(found, found.p)


def test_the_position_by_hand() -> None:
    """Means .2, .3, .1 of a change of .4: likeness .5, floor .25, ceiling .75, half way."""
    values = [np.full((2, 8), one) for one in (0.2, 0.3, 0.1, 0.4)]
    found = judged(Variation(*values))
    np.testing.assert_allclose(found.effect, 0.5)
    for text in ("0.500 [", "0.250 [", "0.750 ["):
        assert text in found.figures
    # 8 queries: p is no smaller than 2^-8
    assert found.p == pytest.approx(2.0**-8)


def test_likeness_lies_inside_its_interval() -> None:
    given = variation(0.5)
    found = alike(given.matched, given.change, rng=resamples())
    assert found.low < found.estimate < found.high < 1


def test_every_verdict() -> None:
    assert says(judged(variation(0.7))) == SUPPORTED
    assert says(judged(variation(0.0))) == CONTRADICTED
    assert says(judged(variation(0.0, noise=0.4))) == NOT_DISTINGUISHABLE
    assert says(judged(variation(0.7)._replace(change=np.full((5, 60), 0.04)))) == NOT_ASSESSABLE


def test_the_planted_position_is_recovered() -> None:
    for place in (0.2, 0.5, 0.9):
        found = judged(variation(place))
        assert found.effect.estimate == pytest.approx(place, abs=0.03)
        assert found.effect.low <= place <= found.effect.high


def test_a_small_change_is_said_to_be_one() -> None:
    found = judged(variation(0.7)._replace(change=np.full((5, 60), 0.04)))
    assert "total variation to ZSL is 0.04" in found.reason


def test_a_fine_tuning_that_changes_nothing_contradicts_nothing() -> None:
    given = variation(0.0)
    found = judged(given._replace(matched=given.change, mismatched=given.change + 1e-8))
    assert says(found) == NOT_ASSESSABLE
    assert "FT leaves every output" in found.reason


def test_no_room_below_the_ceiling_is_not_assessable() -> None:
    given = variation(0.5)
    found = judged(given._replace(order=given.mismatched))
    assert says(found) == NOT_ASSESSABLE
    assert "no room" in found.reason


def test_farther_from_icl_than_zsl_is_beaten_by_doing_nothing() -> None:
    """FT on D is nearer to ICL than FT on D', and still farther than ZSL."""
    given = variation(0.7)
    found = judged(given._replace(change=given.matched - 0.01))
    assert found.p <= 0.05
    assert says(found) == NOT_DISTINGUISHABLE


def test_a_query_that_lacks_a_run_is_left_out_of_all() -> None:
    given = variation(0.5)
    gone, rest = given.order.copy(), np.arange(59)
    gone[:, 59] = math.nan
    drawn = resamples()
    found = output_change_finding(given._replace(order=gone), rng=drawn)
    short = output_change_finding(
        Variation(*(one[:, rest] for one in given)),
        rng=drawn._replace(queries=drawn.queries[:, rest]),
    )
    np.testing.assert_allclose(found.effect, short.effect)
    nothing = judged(given._replace(order=np.full((5, 60), math.nan)))
    assert says(nothing) == NOT_ASSESSABLE


def test_one_wild_ratio_does_not_decide() -> None:
    """A query that demonstrations leave alone has a ratio of -99: a mean of ratios would be it."""
    given = variation(0.7)
    values = [one.copy() for one in given]
    for one, value in zip(values, (0.01, 0.01, 0.01, 0.0001), strict=True):
        one[:, 0] = value
    assert judged(Variation(*values)).effect.estimate == pytest.approx(
        judged(given).effect.estimate, abs=0.02
    )


def test_arrays_of_several_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="of one shape"):
        judged(variation(0.5)._replace(order=np.zeros((5, 59))))


def test_nothing_gained_is_seldom_supported() -> None:
    """FT on D and on D' are equally near: at most .05 of 300 within 2.5 sd."""
    rng = np.random.default_rng(0)
    found = []
    for seed in range(300):
        sides = [np.clip(m + rng.normal(0, 0.1, (5, 60)), 0, 1) for m in (0.3, 0.3, 0.1, 0.4)]
        found.append(output_change_finding(Variation(*sides), rng=resamples(seed=seed, count=200)))
    assert np.mean([one.p <= 0.05 for one in found]) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 300)
