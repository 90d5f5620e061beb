"""Contributions beside rows of hypotheses: by loops, by planted rows, and what is undefined."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.bank import hypothesis_named, rows
from analysis.centring import double_centred
from analysis.contribution_rows import RIVALS, contribution_lines
from analysis.design import Floats
from analysis.inference import mean_interval
from analysis.simulate import SimulatedDesign, simulate_contexts

CONTEXTS = simulate_contexts(SimulatedDesign(contexts=10), rng=np.random.default_rng(0))
OLS = hypothesis_named("ols")
ROW = rows(OLS, CONTEXTS)


def planted() -> Floats:
    """Twice the OLS row and a constant, minus it, it times y, gd(1), nothing, and noise."""
    rng = np.random.default_rng(1)
    kinds = [
        2 * ROW + 5,
        -ROW,
        ROW * CONTEXTS.y[:, None, :],
        rows(hypothesis_named("gd(1)"), CONTEXTS),
        np.zeros_like(ROW),
        rng.normal(size=ROW.shape),
    ]
    return np.stack(kinds, axis=2)


def test_planted_rows_are_recognised() -> None:
    found = contribution_lines(planted(), CONTEXTS, OLS)
    np.testing.assert_allclose(found.correlation.estimate[:2], [1, -1])
    np.testing.assert_allclose(found.correlation.low[0], 1)
    np.testing.assert_allclose(found.slope.estimate[:2], [2, -1])
    np.testing.assert_allclose(found.with_y.estimate[2], 1)
    np.testing.assert_allclose(found.gd.estimate[3], 1)
    assert abs(found.correlation.estimate[5]) < 0.1
    assert found.correlation.low[5] < 0 < found.correlation.high[5]


def test_a_row_that_writes_nothing_is_undefined() -> None:
    found = contribution_lines(planted(), CONTEXTS, OLS)
    for name in ("correlation", "slope", "with_y", *RIVALS):
        assert np.isnan([part[4] for part in getattr(found, name)]).all()
    assert np.isnan(found.negative[4])
    assert found.size[4] == 0


def test_a_constant_row_does_not_vary() -> None:
    """Its rounding is no correlation."""
    both = np.stack([ROW, np.full_like(ROW, 0.1)], axis=2)
    found = contribution_lines(both, CONTEXTS, OLS)
    assert np.isnan(found.correlation.estimate[1])


def test_by_loops() -> None:
    """Correlation of centred numbers, negative mass and size of noise, one number at a time."""
    values = planted()[:, :, 5:]
    found = contribution_lines(values, CONTEXTS, OLS)
    noise = values[:, :, 0]
    r = np.corrcoef(double_centred(noise).ravel(), double_centred(ROW).ravel())[0, 1]
    np.testing.assert_allclose(found.correlation.estimate[0], r)
    below = sum(-x for x in noise.ravel() if x < 0)
    np.testing.assert_allclose(found.negative[0], below / np.abs(noise).sum())
    sums = [one.sum() ** 2 for context in noise for one in context]
    np.testing.assert_allclose(found.size[0], np.sqrt(np.mean(sums)))


def test_intervals_are_over_units() -> None:
    """Slope of rows that are a_c times OLS, of equal target size: the mean of a_c, by units."""
    size = np.sqrt((double_centred(ROW) ** 2).sum(axis=(1, 2)))[:, None, None]
    a = np.random.default_rng(2).normal(1, 0.3, size=len(ROW))
    own = ROW / size
    values = (a[:, None, None] * own)[:, :, None]
    equal = replace(OLS, row=lambda contexts: own)
    found = contribution_lines(values, CONTEXTS, equal)
    np.testing.assert_allclose(found.slope.at(0), mean_interval(a), rtol=1e-9)
    blocks = np.repeat(np.arange(5), 2)
    blocked = contribution_lines(values, CONTEXTS, equal, blocks=blocks.tolist())
    by_block = mean_interval(a.reshape(5, 2).mean(axis=1))
    np.testing.assert_allclose(blocked.slope.at(0), by_block, rtol=1e-9)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="contributions needed the shape"):
        contribution_lines(planted()[:, :, :, 1:], CONTEXTS, OLS)
