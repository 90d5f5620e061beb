"""Comparisons that stand beside the matched one, and the intervals of their difference."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.similarity.conditions import (
    CONDITIONS,
    MATCHED,
    measured,
    moved_as_here,
    random_update,
)
from analysis.similarity.measures import MEASURES
from analysis.similarity.published import PUBLISHED, published_for
from analysis.similarity.records import Runs
from analysis.similarity.resampling import holm, over_layers, paired, two_way_interval
from tests.analysis.similarity.records import LAYERS, record


def test_a_comparison_without_its_runs_is_left_out() -> None:
    runs = {"icl": record(0), "zsl": record(1), "ft": record(2)}
    assert {name for name, _ in measured(runs)} == {MATCHED}
    every = {name: record(3) for one in CONDITIONS.values() for name in one[:3]} | runs
    found = measured(every)
    assert {name for name, _ in found} == set(CONDITIONS)
    assert set(found) == {
        (name, key)
        for name, condition in CONDITIONS.items()
        for key, measure in MEASURES.items()
        if measure.reads not in condition.lacks
    }
    # Scores of another query have another length; a random update changes no chance of a word.
    assert ("other query", "SimAM-delta") not in found
    assert ("random, uniform", "top-10 overlap") not in found
    assert_allclose(found[MATCHED, "SimAOU"], MEASURES["SimAOU"].of(Runs(**runs)))


def test_random_updates_have_the_published_range_or_the_norm_of_fine_tuning() -> None:
    zsl, ft = record(1), record(2)
    uniform = random_update(zsl, ft, "uniform", rng=np.random.default_rng(0))
    change = uniform.h - zsl.h
    assert change.min() >= -1e-12
    assert change.max() < 1
    gaussian = random_update(zsl, ft, "gaussian", rng=np.random.default_rng(0))
    for name in ("h", "scores"):
        sizes = [
            np.linalg.norm(getattr(one, name) - getattr(zsl, name), axis=-1)
            for one in (gaussian, ft)
        ]
        assert_allclose(*sizes)


def test_another_query_lends_its_update() -> None:
    zsl, other_zsl, other_ft = record(1), record(2), record(3)
    moved = moved_as_here(zsl, other_zsl, other_ft)
    assert_allclose(moved.h - zsl.h, other_ft.h - other_zsl.h)
    runs = Runs(record(0), zsl, moved)
    assert np.isnan(MEASURES["SimAM-delta"].of(runs)).all()


def test_a_context_that_does_nothing_cannot_be_told_from_the_mismatched_one() -> None:
    """ICL ignores its demonstrations: its update has nothing to do with either fine-tuning."""
    covered = 0
    for trial in range(60):
        rng = np.random.default_rng(trial)
        shape = (3, 12, LAYERS)
        found = paired(rng.normal(0, 0.2, shape), rng.normal(0, 0.2, shape), rng=rng)
        covered += found.difference.low <= 0 <= found.difference.high
        assert found.p > 0
    # At 95 % at least 50 of 60 with probability above .998.
    assert covered >= 50


def test_a_true_difference_is_found_with_its_size() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, (4, 30, LAYERS))
    found = paired(base + 0.2, base, rng=rng)
    assert found.difference.estimate == pytest.approx(0.2)
    assert found.p == pytest.approx(1 / 2001)
    assert (found.sets, found.queries, found.undefined) == (4, 30, 0)


def test_sets_vary_beside_queries() -> None:
    """Where only sets differ, one set alone gives an interval that is too short."""
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, (8, 1)) + 0.01 * rng.standard_normal((8, 40))
    both = two_way_interval(values, rng=rng)
    one = two_way_interval(values[:1], rng=rng)
    assert both.high - both.low > 20 * (one.high - one.low)
    # The standard error of a mean of 8 is sd / sqrt 8; four of them span the interval about.
    error = values.mean(axis=1).std(ddof=1) / math.sqrt(8)
    assert both.high - both.low == pytest.approx(3.7 * error, rel=0.25)


def test_undefined_values_are_left_out_and_counted() -> None:
    values = np.array([[[1.0, np.nan], [np.nan, np.nan], [0.0, 2.0]]])
    assert_allclose(over_layers(values), [[1, np.nan, 1]])
    found = paired(values, np.zeros_like(values), rng=np.random.default_rng(0))
    assert found.matched.estimate == 1
    assert found.undefined == pytest.approx(3 / 6)
    nothing = paired(values * np.nan, values, rng=np.random.default_rng(0))
    assert math.isnan(nothing.difference.estimate)
    assert math.isnan(nothing.p)


def test_holm_steps_down() -> None:
    # Three defined: .01 x 3, .03 x 2, .04 x 1 but not below the one before.
    assert_allclose(holm([0.03, math.nan, 0.01, 0.04]), [0.06, math.nan, 0.03, 0.06])
    assert holm([]) == []


def test_published_values_stand_under_the_names_of_our_measures() -> None:
    ours = {*MEASURES, "Rec2FTP", "Kendall (queries)"}
    assert {one.measure for one in PUBLISHED} <= ours
    found = {(one.measure, one.task): one.value for one in published_for("mr", "lcgd")}
    # 2311.07772: MR under layer-causal GD.
    assert found["SimAOU", "mr"] == 0.21
    assert found["SimAM-delta", "mr"] == 0.26
    assert found["SimAOU", "average"] == 0.167
