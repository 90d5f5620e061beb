"""Five sets that differ, as sets of demonstrations do: claims must not come of that alone."""

import math

import numpy as np

from analysis.claims.few_sets import of_few_sets
from analysis.claims.output_change import Variation, output_change_finding
from analysis.inference import Interval
from analysis.similarity.resampling import paired
from tests.analysis.claims.planted import resamples

MOST = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 300)


def test_sets_that_differ_are_claimed_on_no_more_often_than_5_percent() -> None:
    rng, plain, wider = np.random.default_rng(0), [], []
    for seed in range(300):
        change = rng.normal(0, 0.1, (5, 1, 1)) + rng.normal(0, 0.1, (5, 60, 1))
        found = paired(change, np.zeros_like(change), rng=resamples(seed=seed, count=200))
        plain.append(found.p)
        wider.append(of_few_sets(found.difference, found.p, change[..., 0]))
    assert np.mean(np.array(plain) <= 0.05) > MOST
    assert np.mean([one.p <= 0.05 for one in wider]) <= MOST
    assert np.mean([one.interval.low <= 0 <= one.interval.high for one in wider]) >= 1 - MOST


def test_outputs_of_sets_that_differ_are_claimed_on_no_more_often() -> None:
    rng, found = np.random.default_rng(1), []
    for seed in range(300):
        sides = 0.3 + rng.normal(0, 0.03, (2, 5, 1)) + rng.normal(0, 0.03, (2, 5, 60))
        given = Variation(sides[0], sides[1], np.full((5, 60), 0.1), np.full((5, 60), 0.4))
        found.append(output_change_finding(given, rng=resamples(seed=seed, count=200)))
    assert np.mean([one.p <= 0.05 for one in found]) <= MOST
    assert np.mean([one.effect.low > 0 for one in found]) <= MOST


def test_it_is_never_narrower_than_given_and_keeps_what_it_cannot_judge() -> None:
    given, rng = Interval(0.1, -5.0, 5.0), np.random.default_rng(0)
    assert of_few_sets(given, 0.5, rng.normal(0.1, 0.01, (5, 60))).interval == given
    assert of_few_sets(given, 0.2, np.full((5, 60), np.nan)) == (given, 0.2)
    gone = rng.normal(0.1, 1, (5, 60))
    gone[2] = np.nan
    short = np.delete(gone, 2, axis=0)
    narrow = Interval(0.1, 0.1, 0.1)
    assert of_few_sets(narrow, 0.0, gone) == of_few_sets(narrow, 0.0, short)
