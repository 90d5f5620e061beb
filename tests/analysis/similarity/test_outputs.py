"""Recall counts, order sensitivity, overlap, Delta W: by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.similarity.outputs import likeliest, order_sensitivity, overlap, total_variation
from analysis.similarity.recovered import recovered
from analysis.similarity.weight_updates import update_likeness


def test_recall_is_counts_first() -> None:
    zsl = np.array([0, 0, 0, 0, 1, 1], dtype=bool)
    ft = np.array([1, 1, 1, 0, 0, 1], dtype=bool)
    icl = np.array([1, 1, 0, 1, 0, 1], dtype=bool)
    found = recovered(zsl, icl, ft)
    # ZSL wrong and FT right: queries 0, 1, 2; ICL right on 0 and 1. ZSL wrong: 4, ICL right on 3.
    assert (found.numerator, found.denominator) == (2, 3)
    assert found.value.estimate == pytest.approx(2 / 3)
    assert found.chance.estimate == pytest.approx(3 / 4)
    assert (found.broken, found.broken_too) == (1, 1)


def test_recall_of_nothing_is_undefined_with_its_counts() -> None:
    right = np.ones(5, dtype=bool)
    found = recovered(right, right, right)
    assert (found.numerator, found.denominator) == (0, 0)
    assert math.isnan(found.value.estimate)
    with pytest.raises(ValueError, match="one answer a query"):
        recovered(right, right, right[:3])


def test_five_of_five_is_not_certain() -> None:
    found = recovered(np.zeros(5, bool), np.ones(5, bool), np.ones(5, bool))
    assert found.value.low == pytest.approx(0.478, abs=5e-4)  # .025 ** (1/5)
    assert found.value.high == 1


def test_variation_and_overlap() -> None:
    a, b = np.log([0.5, 0.3, 0.2]), np.log([0.2, 0.3, 0.5])
    assert total_variation(a, b) == pytest.approx(0.3)
    assert overlap(a, b, top=2) == pytest.approx(1 / 2)
    assert likeliest(np.log([0.25, 0.25, 0.25, 0.25]), 2) == [0, 1]
    with pytest.raises(ValueError, match="at most 3 words"):
        likeliest(a, 4)


def test_order_sensitivity_is_a_sum_of_standard_deviations() -> None:
    orders = np.log([[0.6, 0.4], [0.2, 0.8]])
    zsl = np.log([0.5, 0.5])
    found = order_sensitivity(orders, zsl)
    # sd of (.6, .2) is .4 / sqrt 2, twice; |p - p_ZSL| sums to .2 and .6.
    assert found.total == pytest.approx(2 * 0.4 / math.sqrt(2))
    assert found.per_change == pytest.approx(2 * 0.4 / math.sqrt(2) / 0.4)
    same = order_sensitivity(np.log([[0.5, 0.5]] * 2), zsl)
    assert same.total == 0
    assert math.isnan(same.per_change)
    with pytest.raises(ValueError, match="at least 2 orders"):
        order_sensitivity(orders[:1], zsl)


def test_updates_are_compared_as_long_vectors() -> None:
    rng = np.random.default_rng(0)
    context, before = rng.standard_normal((2, 3, 2, 4, 4))
    found = update_likeness(context, before, before + 0.5 * context)
    assert_allclose(found.cosine, 1)
    assert_allclose(found.relative_norm, 0.5)
    still = update_likeness(context, before, before)
    assert np.isnan(still.cosine).all()
    assert_allclose(still.relative_norm, 0)
    by_hand = update_likeness(
        np.array([[[[3.0, 0]]]]), np.zeros((1, 1, 1, 2)), np.array([[[[1.0, 1]]]])
    )
    assert_allclose(by_hand.cosine, [[math.sqrt(0.5)]])
    assert_allclose(by_hand.relative_norm, [[math.sqrt(2) / 3]])
