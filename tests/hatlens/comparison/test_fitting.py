"""Rates that reach an equal update norm, where the norm is known as a function of the rate."""

from typing import Any

import numpy as np
import pytest

from hatlens.comparison.fitting import fit, fit_at_norm
from probes.finetune_recipe import Diverged


def norms_of(rate: Any) -> Any:
    """Norm 2 rate^power of two layers, in the ratio 1 to 3; here a "model" is its rate."""
    size = 2 * rate.value**rate.power
    return np.array([0.5 * size, 1.5 * size])


class Rate:
    def __init__(self, value: float, power: float) -> None:
        self.value, self.power = value, power


class Made:
    """Makes rates, and counts how often it was asked."""

    def __init__(self, power: float = 1.0, most: float = np.inf) -> None:
        self.power, self.most, self.asked = power, most, 0

    def __call__(self, rate: float) -> Any:
        self.asked += 1
        if rate > self.most:
            raise Diverged("fine-tuning diverged", where="here", step=0, loss=np.inf)
        return Rate(rate, self.power)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("target", [0.02, 0.3, 1.5])
def test_the_norm_is_reached(power: float, target: float) -> None:
    made = Made(power)
    found = fit_at_norm(made, norms_of, rate=0.01, target=target)
    assert found.norm == pytest.approx(target, rel=0.1)
    assert found.norm == pytest.approx(2 * found.rate**power)
    np.testing.assert_allclose(found.norms, [0.5 * found.norm, 1.5 * found.norm])
    # In proportion the second try is exact; a power takes one more to be known.
    assert made.asked <= (2 if power == 1.0 else 4)


def test_a_norm_that_may_be_missed_by_more_takes_fewer_tries() -> None:
    made = Made()
    assert fit_at_norm(made, norms_of, rate=0.06, target=0.1, close=0.25).norm == 0.12
    assert made.asked == 1
    assert fit_at_norm(made, norms_of, rate=0.06, target=0.1).norm == pytest.approx(0.1)


def test_what_diverges_is_tried_lower() -> None:
    found = fit_at_norm(Made(most=0.05), norms_of, rate=1.0, target=0.08)
    assert found.failed == ""
    assert found.norm == pytest.approx(0.08, rel=0.1)


def test_what_always_diverges_says_so() -> None:
    made = Made(most=0.0)
    found = fit_at_norm(made, norms_of, rate=1.0, target=0.1)
    assert found.tuned is None
    assert "diverged" in found.failed
    assert made.asked == 6
    assert np.isnan(fit(made, norms_of, 1.0).norm)


def test_nothing_moves_at_a_rate_of_zero() -> None:
    assert fit_at_norm(Made(), norms_of, rate=0.0, target=0.5).norm == 0
    assert fit_at_norm(Made(), norms_of, rate=0.5, target=0.0).norm == 0


@pytest.mark.parametrize(
    ("norms", "kept"), [([1000.0, 1000.0], True), ([1000.0, 1002.0], False), ([np.nan, 1.0], False)]
)
def test_outputs_moved_beyond_all_measure_are_no_learning(norms: list[float], kept: bool) -> None:
    found = fit(Made(), lambda tuned: np.array(norms), 0.5)
    assert (found.tuned is not None) == kept
    assert ("diverged" in found.failed and "at rate 0.5" in found.failed) != kept
