"""Whose row the behavioural row is, and whether it equals it."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.bank import BANK, Hypothesis, predict, rows
from analysis.behavioural_row import behavioural_row
from analysis.design import ContextArrays, Floats
from analysis.held_out import units_of
from analysis.inference import Interval
from analysis.row_calibration import (
    Calibration,
    calibration,
    equality,
    linearity,
    reliability,
    row_sums,
    row_total,
    squared_ratio,
    units_needed,
)
from analysis.row_runs import RowRuns, main_order
from analysis.simulate import SimulatedDesign, simulate_contexts
from tests.analysis.drawn import contexts_of
from tests.analysis.perturbed import runs_of

FEW = [BANK[name] for name in ("ols", "ridge(1)", "gd(1)", "kernel(1)", "nearest(1)", "uniform")]

PAIR = ("ridge(1)", "nearest(1)")


def simulated(contexts: int = 24, seed: int = 0) -> ContextArrays:
    design = SimulatedDesign(contexts=contexts, examples=12, queries=4)
    return simulate_contexts(design, rng=np.random.default_rng(seed))


def slow(made: RowRuns, hypothesis: Floats) -> tuple[float, float, float, float]:
    """Slope, R2, reliability and relative difference of sizes by loops over every cell."""
    sizes, orders, count, queries, examples = made.values.shape
    shared = variance = total = crossed = apart = length = 0.0
    for c in range(count):
        cells = [
            (m, i)
            for m in range(queries)
            for i in range(examples)
            if all(
                math.isfinite(made.values[d, o, c, m, i])
                for d in range(sizes)
                for o in range(orders)
            )
        ]
        own = np.array([hypothesis[c, m, i] for m, i in cells])
        run = {
            (d, o): np.array([made.values[d, o, c, m, i] for m, i in cells])
            for d in range(sizes)
            for o in range(orders)
        }
        for values in run.values():
            shared += ((values - values.mean()) * (own - own.mean())).sum() / 4
            total += ((values - values.mean()) ** 2).sum() / 4
        variance += ((own - own.mean()) ** 2).sum()
        for o in (0, 1):
            one, other = run[0, o], run[1, 1 - o]
            crossed += ((one - one.mean()) * (other - other.mean())).sum() / 2
            apart += ((run[0, o] - run[1, o]) ** 2).sum() / 2
            length += (run[0, o] ** 2 + run[1, o] ** 2).sum() / 4
    r2 = shared**2 / (variance * total)
    return shared / variance, r2, crossed / total, math.sqrt(apart / length)


def test_figures_are_those_of_slow_loops() -> None:
    made = runs_of(BANK["ridge(0.1)"], contexts := simulated(7), noise=0.05)
    made.values[0, 1, 2, 3, 4] = np.nan
    units, sums = units_of(contexts, None), row_sums(made)
    ols = rows(BANK["ols"], contexts)
    found = calibration(made, sums, np.stack([ols, ols]), units)
    slope, r2, reliable, apart = slow(made, ols)
    assert_allclose(found.slope.estimate, slope)
    assert_allclose(found.r2.estimate, r2)
    assert_allclose(found.share_of_reliability.estimate, r2 / reliable)
    assert_allclose(reliability(sums, units).estimate, reliable)
    assert_allclose(linearity(made, units)[0].estimate, apart)


def test_calibration_by_hand() -> None:
    """One query, two examples: the row (.9, .3) and the hypothesis' (1, 0).

    Centred they are (.3, -.3) and (.5, -.5). Slope .3 / .5 = .6 in both contexts, R2 1; two runs
    alike: reliability 1. The row sums to 1.2.
    """
    contexts = contexts_of(np.zeros((2, 2, 1)), np.zeros((2, 2)), np.zeros((2, 1, 1)))
    values = np.broadcast_to([0.9, 0.3], (2, 1, 2, 1, 2)).copy()
    made = RowRuns(values, np.array([0.1, 0.2]), main_order(contexts)[None])
    units = units_of(contexts, None)
    found = calibration(made, row_sums(made), np.broadcast_to([1.0, 0.0], (1, 2, 1, 2)), units)
    assert_allclose(found.slope, [0.6, 0.6, 0.6])
    assert_allclose(found.r2, [1, 1, 1])
    assert_allclose(found.share_of_reliability, [1, 1, 1])
    assert_allclose(row_total(made, units), [1.2, 1.2, 1.2])
    assert equality(found) == "does not equal"


@pytest.mark.parametrize("one", FEW[:-1], ids=lambda one: one.name)
def test_each_smoothers_row_equals_its_own_and_no_other(one: Hypothesis) -> None:
    found = behavioural_row(runs_of(one, simulated(), noise=0.01), simulated(), FEW)
    assert found.label == f"equals {one.name}"
    assert found.linear == "agree"
    first = found.lines[0]
    assert first.hypothesis == one.name
    assert first.equals == "equals"
    assert first.slope.low <= 1 <= first.slope.high
    if one.name == "kernel(1)":
        ols = next(line for line in found.lines if line.hypothesis == "ols")
        assert ols.separable
        assert ols.equals == "does not equal"


def test_a_row_that_learns_in_order_is_judged_within_its_order() -> None:
    """Two orders give two rows; the hypothesis follows both, and only sizes are its runs."""
    online = BANK["online_gd(0.5)"]
    found = behavioural_row(runs_of(online, simulated(), noise=0.01), simulated(), [*FEW, online])
    assert found.reliability.high < 0.5
    assert found.label == "equals online_gd(0.5)"


def test_the_whole_bank_names_ols_and_says_its_kin() -> None:
    contexts = simulated(30)
    found = behavioural_row(runs_of(BANK["ols"], contexts, noise=0.02), contexts)
    assert found.label == "equals ols"
    assert "gd_per_context(1024)" in found.inseparable
    assert "Not separable from it on this design: " in found.sentence
    assert found.without_row == ("kernel_left_out",)
    assert len(found.lines) == len(BANK) - 1


def test_a_few_long_rows_do_not_hide_a_difference() -> None:
    """nearest(1) is further off than ridge(1) in every context, though rows differ in length."""
    contexts = simulated()
    made = runs_of(BANK["ridge(1)"], contexts, noise=0.01)
    gaps = [((made.mean - rows(BANK[name], contexts)) ** 2).sum(axis=(1, 2)) for name in PAIR]
    assert (gaps[1] > gaps[0]).all()
    found = behavioural_row(made, contexts, [BANK[name] for name in PAIR])
    assert found.lines[1].separable


def test_half_of_a_row_is_nearest_and_not_equal() -> None:
    """Answers are half least squares: explained wholly, with slope .5."""
    contexts = simulated()
    half = runs_of(lambda given: 0.5 * predict(BANK["ols"], given), contexts, noise=0.005)
    found = behavioural_row(half, contexts, [BANK["ols"], BANK["kernel(1)"]])
    ols = next(line for line in found.lines if line.hypothesis == "ols")
    assert_allclose(ols.slope.estimate, 0.5, atol=0.01)
    assert ols.share_of_reliability.estimate > 0.99
    assert ols.equals == "does not equal"
    assert not found.label.startswith("equals")


def test_answers_that_are_not_linear_in_y_are_said_so() -> None:
    """Rounded least squares: small changes of y mostly change nothing, large ones all at once."""

    def rounded(given: ContextArrays) -> Floats:
        return np.asarray(np.round(predict(BANK["ols"], given) * 5) / 5)

    contexts = simulated()
    found = behavioural_row(runs_of(rounded, contexts), contexts, FEW)
    assert found.linear == "do not agree"
    assert "the answer is not linear in y, the row depends on the size" in found.sentence
    assert not found.label.startswith("equals")


@pytest.mark.parametrize(("sizes", "orders"), [((0.05,), 2), ((0.05, 0.1), 1), ((0.05,), 1)])
def test_without_two_sizes_and_orders_nothing_equals(sizes: tuple[float, ...], orders: int) -> None:
    contexts = simulated()
    made = runs_of(BANK["ols"], contexts, sizes=sizes, orders=orders, noise=0.01)
    found = behavioural_row(made, contexts, FEW)
    assert found.label == "nearest to ols"
    assert f"measured were {len(sizes)} and {orders}" in found.sentence
    assert math.isnan(found.linearity.estimate) == (len(sizes) == 1)
    assert math.isnan(found.reliability.estimate) == (len(sizes) * orders == 1)


@pytest.mark.parametrize(("count", "assessable"), [(1, False), (5, False), (6, True)])
def test_few_contexts_are_not_assessable(count: int, assessable: bool) -> None:
    contexts = simulated(count)
    found = behavioural_row(runs_of(BANK["ols"], contexts, noise=0.01), contexts, FEW)
    assert found.assessable is assessable
    if not assessable:
        assert found.label.startswith(f"not assessable: {count} context")
        assert "at least 6 are needed" in found.sentence
        assert found.nearest == ()
        assert math.isfinite(found.lines[0].distance.estimate)


def test_answers_that_no_example_changes_are_not_assessable() -> None:
    contexts = simulated(8)
    made = runs_of(lambda given: np.zeros(given.queries.shape[:2]), contexts)
    found = behavioural_row(made, contexts, FEW)
    assert found.label == "not assessable: no answer changes with the y of any example"
    made.values[:] = np.nan
    found = behavioural_row(made, contexts, FEW)
    assert found.label == "not assessable: the answer to no changed example could be read"
    assert found.missing == found.asked == 8 * 4 * 12


def test_the_mean_is_nearest_and_has_no_slope() -> None:
    """1/N everywhere: nothing varies within a context, and rounding is not taken for it."""
    contexts = simulate_contexts(SimulatedDesign(contexts=12), rng=np.random.default_rng(0))
    found = behavioural_row(runs_of(BANK["uniform"], contexts), contexts, FEW)
    assert found.label == "nearest to uniform"
    assert found.lines[0].equals == "undefined"
    assert "its row does not vary within a context" in found.sentence


def test_sizes_that_differ_keep_a_row_from_being_equal() -> None:
    """1.2 and .8 times least squares: slope 1 on average, relative difference .4 / sqrt(1.04)."""
    contexts = simulated()
    made = runs_of(BANK["ols"], contexts)
    made.values[0] *= 1.2
    made.values[1] *= 0.8
    found = behavioural_row(made, contexts, FEW)
    assert_allclose(found.linearity.estimate, 0.4 / math.sqrt(1.04))
    assert found.lines[0].equals == "equals"
    assert found.label == "nearest to ols"
    assert "the rows of the two sizes do not agree surely enough" in found.sentence


def test_unmeasured_cells_are_left_out_and_counted() -> None:
    contexts = simulated()
    made = runs_of(BANK["ols"], contexts, noise=0.01)
    made.values[0, 0, :, :, 3] = np.nan
    made.values[0, 0, 5] = np.nan
    found = behavioural_row(made, contexts, FEW)
    assert found.label == "equals ols"
    assert found.units == 23
    assert found.missing == 23 * 4 + 48
    assert f"{found.missing} of {24 * 48} cells could not be measured" in found.sentence


def test_blocks_are_the_unit() -> None:
    contexts = simulated(20)
    made, blocks = runs_of(BANK["ols"], contexts, noise=0.01), np.repeat(range(10), 2).tolist()
    found = behavioural_row(made, contexts, FEW, blocks=blocks, unit="block of rows")
    assert (found.units, "over 10 blocks of rows" in found.sentence) == (10, True)


def test_equality_is_decided_by_whole_intervals() -> None:
    def found(slope: tuple[float, float, float], share: tuple[float, float, float]) -> Calibration:
        return Calibration(Interval(*slope), Interval(1, 1, 1), Interval(*share))

    sure = (0.95, 0.9, 1.0)
    assert equality(found((1.0, 0.85, 1.2), sure)) == "equals"
    assert equality(found((1.0, 0.75, 1.2), sure)) == "not separable"
    assert equality(found((0.7, 0.6, 0.79), sure)) == "does not equal"
    assert equality(found((1.5, 1.26, 1.8), sure)) == "does not equal"
    assert equality(found((1.0, 0.9, 1.1), (0.7, 0.6, 0.79))) == "does not equal"
    assert equality(found((1.0, 0.9, 1.1), (0.8, 0.7, 0.9))) == "not separable"
    assert equality(found((1.0, math.nan, math.nan), sure)) == "undefined"
    # Slope: room .2 below, half width .4: (.4 / .2)^2 = 4 times as many; share: (.1 / .15)^2 < 1.
    assert units_needed(found((1.0, 0.6, 1.2), (0.95, 0.85, 1.0)), 12) == 48
    assert units_needed(found((0.7, 0.6, 0.9), sure), 12) is None


def test_squared_ratio_by_hand() -> None:
    """Means 2, 1 and 8: 4 / 8. Where a mean is 0 nothing is divided."""
    assert_allclose(
        squared_ratio(np.array([1.0, 3]), np.array([1.0, 1]), np.array([8.0, 8])).estimate, 0.5
    )
    assert math.isnan(squared_ratio(np.ones(3), np.zeros(3), np.ones(3)).estimate)
    assert math.isnan(squared_ratio(np.ones(3), np.ones(3), np.full(3, np.nan)).estimate)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Slope 1, share 1 by construction; 200 studies of 12 contexts with noise in every cell."""
    contexts = simulated(12 * 200, seed=3)
    made = runs_of(BANK["ols"], contexts, noise=0.1)
    own = rows(BANK["ols"], contexts)
    held = np.zeros(2)
    for study in range(200):
        cut = slice(12 * study, 12 * study + 12)
        part = RowRuns(made.values[:, :, cut], made.sizes, made.orders[:, cut])
        units = units_of(ContextArrays(*(array[cut] for array in contexts)), None)  # type: ignore[arg-type]
        found = calibration(part, row_sums(part), np.stack([own[cut]] * 2), units)
        for place, interval in enumerate((found.slope, found.share_of_reliability)):
            held[place] += interval.low <= 1 <= interval.high
    assert (held / 200 >= 0.9).all(), held
    assert (held / 200 <= 0.99).all(), held


def test_a_row_between_its_bounds_says_how_many_contexts_would_decide() -> None:
    contexts = simulated(8)
    made = runs_of(lambda given: 0.83 * predict(BANK["ols"], given), contexts, noise=0.25)
    made.values[1] = made.values[0]
    found = behavioural_row(made, contexts, [BANK["ols"]])
    assert found.lines[0].equals == "not separable"
    assert "It is not said to equal ols: the intervals of slope or share reach" in found.sentence
    assert "contexts would decide it" in found.sentence
