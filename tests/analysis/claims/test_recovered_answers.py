"""C7: the common odds ratio against statsmodels and by hand, its error rate, and each verdict."""

import math
import warnings

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
from analysis.claims.recovered_answers import (
    MARGIN,
    Answers,
    log_odds_ratio,
    mantel_haenszel,
    recovered_answers_finding,
    strata,
)
from tests.analysis.claims.planted import answers, resamples


def judged(given: Answers, *, seed: int = 0, count: int = 400) -> Finding:
    drawn = resamples(*given.gold.shape, seed=seed, count=count)
    return recovered_answers_finding(given, rng=drawn)


def says(found: Finding) -> str:
    return verdict_of(found, found.p)


def test_the_ratio_by_hand() -> None:
    """Groups of 10 each: (4*2/10 + 3*3/10) / (1*3/10 + 2*2/10) = 1.7 / .7."""
    counts = np.array([[4, 1, 3, 2], [3, 2, 2, 3]], dtype=float)
    assert mantel_haenszel(counts) == pytest.approx(math.log(1.7 / 0.7))


def test_the_ratio_is_that_of_statsmodels() -> None:
    from statsmodels.stats.contingency_tables import StratifiedTable

    given = answers(1.0)
    groups = strata(given.gold, given.margin, ~given.zsl)
    found = log_odds_ratio(given.ft, given.icl, groups, rng=resamples(5, 100), pseudo=0.0)
    tables = []
    for group in range(groups.max() + 1):
        ft, icl = given.ft[groups == group], given.icl[groups == group]
        cells = [[(ft & icl).sum(), (ft & ~icl).sum()], [(~ft & icl).sum(), (~ft & ~icl).sum()]]
        tables.append(np.array(cells, dtype=float))
    assert len(tables) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = StratifiedTable(tables).logodds_pooled
    assert found.estimate == pytest.approx(expected)
    smoothed = log_odds_ratio(given.ft, given.icl, groups, rng=resamples(5, 100)).estimate
    assert smoothed == pytest.approx(expected, abs=0.02)
    assert abs(smoothed) < abs(expected)


def test_a_resample_counts_whole_queries_and_sets() -> None:
    """Each resample is the ratio of a table in which sets and queries are printed as drawn."""
    given = answers(1.0, sets=3, queries=30)
    groups = strata(given.gold, given.margin, ~given.zsl)
    drawn = resamples(3, 30, count=5)
    found = log_odds_ratio(given.ft, given.icl, groups, rng=drawn, pseudo=0.5)
    for place in range(5):
        sets = np.repeat(np.arange(3), drawn.sets[place].astype(int))
        queries = np.repeat(np.arange(30), drawn.queries[place].astype(int))
        some = np.ix_(sets, queries)
        counts = np.zeros((groups.max() + 1, 4))
        for ft, icl, group in zip(
            given.ft[some].ravel(), given.icl[some].ravel(), groups[some].ravel(), strict=True
        ):
            if group >= 0:
                counts[group, 2 * (not ft) + (not icl)] += 1
        assert found.draws[place] == pytest.approx(float(mantel_haenszel(counts, pseudo=0.5)))


def test_strata_are_label_and_third_of_the_margin() -> None:
    gold = np.array([[0, 0, 0, 1, 1, 1, 0]])
    margin = np.array([[-3.0, -2.0, -1.0, -3.0, -2.0, -1.0, 5.0]])
    groups = strata(gold, margin, margin < 0)
    assert groups.tolist() == [[0, 1, 2, 3, 4, 5, -1]]


def test_item_difficulty_alone_is_not_supported() -> None:
    """Both runs are likelier right on easy items, independently given the item: in 300 draws a
    corrected p of one claim finds at most .07, while the ratio without ICL on D' is far above 1."""
    found = [judged(answers(0.0, seed=seed), seed=seed, count=200) for seed in range(300)]
    assert not [one for one in found if one.reason]
    assert np.mean([one.p <= 0.05 for one in found]) <= 0.07
    assert np.mean([says(one) == SUPPORTED for one in found]) <= 0.05
    assert np.mean([one.beats for one in found]) > 0.1
    assert np.mean([one.effect.low <= 0 <= one.effect.high for one in found]) >= 0.93
    assert abs(np.mean([one.effect.estimate for one in found])) < 0.05


def test_a_planted_dependence_is_found() -> None:
    found = [judged(answers(3.0, seed=seed), seed=seed) for seed in range(20)]
    assert np.mean([says(one) == SUPPORTED for one in found]) >= 0.9
    assert "odds ratios" in found[0].figures
    assert "answers that FT breaks" in found[0].figures


def test_other_demonstrations_that_fix_as_much_contradict_it() -> None:
    """ICL on D' has FT's own answers, ICL on D has none of them beyond chance."""
    given = answers(3.0)
    reversed_ = given._replace(icl=given.icl_other, icl_other=given.icl)
    found = judged(reversed_)
    assert found.effect.high < MARGIN
    assert says(found) == CONTRADICTED


def test_too_small_an_effect_is_not_distinguishable() -> None:
    assert says(judged(answers(0.8, queries=50, seed=1))) == NOT_DISTINGUISHABLE


def test_more_than_the_control_but_no_more_than_chance_is_not_supported() -> None:
    """ICL is right where FT is not, and ICL on D' more so still."""
    given = answers(0.0, seed=3)
    rng = np.random.default_rng(0)
    against = np.where(rng.random(given.ft.shape) < 0.1, given.ft, ~given.ft)
    found = judged(given._replace(icl_other=against))
    assert found.p <= 0.05
    lower = np.where(rng.random(given.ft.shape) < 0.4, given.ft, ~given.ft)
    found = judged(given._replace(icl=lower, icl_other=against))
    assert found.p <= 0.05
    assert not found.beats
    assert says(found) == NOT_DISTINGUISHABLE


def test_few_answers_fixed_are_not_assessable() -> None:
    found = judged(answers(3.0, sets=1))
    assert says(found) == NOT_ASSESSABLE
    assert "needed 30" in found.reason


def test_a_run_that_is_always_right_says_nothing() -> None:
    given = answers(3.0)
    found = judged(given._replace(icl=np.ones_like(given.icl)))
    assert says(found) == NOT_ASSESSABLE
    assert "rightly and wrongly" in found.reason


def test_a_constant_added_to_every_margin_of_the_wrong_changes_nothing() -> None:
    given = answers(1.0)
    assert judged(given) == judged(given._replace(margin=given.margin * 2 - 1))
