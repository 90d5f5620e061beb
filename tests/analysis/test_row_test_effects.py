"""Effect sizes and what a design could find: each against a slow computation or a closed form."""

from typing import NamedTuple

import numpy as np
import pytest

from analysis.assembly import Assembly, assemble
from analysis.bank import hypothesis_named, rows
from analysis.bank.geometry import geometry
from analysis.bootstrap import resampled_counts
from analysis.centring import centred_columns, double_centred
from analysis.cross_estimates import CrossEstimate, best_row, cross_estimate
from analysis.design import ContextArrays, Floats
from analysis.directions import direction_rows
from analysis.flips import critical_value, flip_signs, max_t_null, t_statistic
from analysis.folds import (
    Folded,
    assign_folds,
    compare,
    folded,
    log_ratio,
    unique_over_explained,
)
from analysis.inversion import inversion_intervals
from analysis.moments import Rows, row_moments
from analysis.planted.scene import standardised
from analysis.reproducible import (
    Replicate,
    reproducible_share,
    share_of_reproducible,
    shared_moments,
    unique_weights,
)
from analysis.simulate import SimulatedDesign, simulate_contexts
from analysis.spike import SHARES, found_by_share, least_share

DESIGN = SimulatedDesign(contexts=24)


class Small(NamedTuple):
    contexts: ContextArrays
    columns: Assembly
    ols: Floats


@pytest.fixture(scope="module")
def small() -> Small:
    contexts = simulate_contexts(DESIGN, rng=np.random.default_rng(0))
    ols = standardised(rows(hypothesis_named("ols"), contexts))
    return Small(contexts, assemble(contexts, [hypothesis_named("ols")]), ols)


def seen_with(small: Small, *parts: Floats) -> Rows:
    return row_moments(np.stack(parts, axis=2), small.columns.values)


def folded_rows(seen: Rows, seed: int = 1) -> Folded:
    groups = assign_folds(DESIGN.contexts, 8, rng=np.random.default_rng(seed))
    return folded(seen.moments, groups)


def noise_like(small: Small, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(small.ols.shape)


def test_the_inversion_index_equals_explicit_least_squares(small: Small) -> None:
    row = small.ols + noise_like(small, 1)
    seen = seen_with(small, row)
    columns = small.columns
    nuisance = columns.family("positional", "lexical")
    found = inversion_intervals(
        seen.moments, columns.directions, nuisance, columns.direction_sd, np.ones((3, 24))
    )
    raw = centred_columns(direction_rows(geometry(small.contexts)))
    design = np.concatenate([raw, columns.values[..., nuisance]], axis=-1)
    fit = np.linalg.lstsq(
        design.reshape(-1, design.shape[-1]), double_centred(row).ravel(), rcond=None
    )[0]
    np.testing.assert_allclose(found.estimate[0], fit[1] / fit[0], rtol=1e-4)


@pytest.mark.parametrize("penalty", [0.01, 0.1])
def test_the_inversion_index_of_ridge_where_all_contexts_are_alike(penalty: float) -> None:
    """Ridge multiplies 1/l by l/(l + penalty mean l). Where the eigenvalues of every context are
    the same, index = l2/(l2 + p m) x (l1 + p m)/l1, m their mean."""
    design = SimulatedDesign(contexts=12)
    contexts = simulate_contexts(design, rng=np.random.default_rng(3))
    shape = geometry(contexts)
    # x with the same two eigenvalues everywhere: replace the singular values of each context
    wanted = np.array([4.0, 0.04])
    x = contexts.x.mean(axis=1, keepdims=True) + shape.example_parts / np.sqrt(shape.eigenvalues)[
        :, None
    ] * np.sqrt(wanted) @ shape.directions.swapaxes(1, 2)
    contexts = contexts._replace(x=x)
    ridge = rows(hypothesis_named(f"ridge({penalty})"), contexts)
    columns = assemble(contexts, [hypothesis_named("ols")])
    seen = row_moments(ridge[:, :, None], columns.values)
    found = inversion_intervals(
        seen.moments,
        columns.directions,
        columns.families["lexical"][:0],
        columns.direction_sd,
        resampled_counts(12, 50, rng=np.random.default_rng(0)),
    )
    added = penalty * wanted.mean()
    expected = wanted[1] / (wanted[1] + added) * (wanted[0] + added) / wanted[0]
    for bound in found:
        np.testing.assert_allclose(bound, [expected], rtol=1e-4)


def test_intervals_of_the_index_hold_the_index() -> None:
    """Nominally 95 % of 40 studies hold the 1 of least squares; 33 is four standard deviations
    below."""
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        contexts = simulate_contexts(DESIGN, rng=rng)
        row = standardised(rows(hypothesis_named("ols"), contexts))
        columns = assemble(contexts, [hypothesis_named("ols")])
        seen = row_moments((row + rng.standard_normal(row.shape))[:, :, None], columns.values)
        nuisance = columns.family("positional", "lexical")
        counts = resampled_counts(DESIGN.contexts, 100, rng=rng)
        found = inversion_intervals(
            seen.moments, columns.directions, nuisance, columns.direction_sd, counts
        ).at(0)
        held += found.low <= 1.0 <= found.high
    assert held >= 33


def test_the_index_is_undefined_with_one_feature_or_without_the_strongest_direction(
    small: Small,
) -> None:
    columns = small.columns
    none = columns.families["lexical"][:0]
    counts = resampled_counts(24, 20, rng=np.random.default_rng(0))
    seen = seen_with(small, -small.ols, small.ols)
    found = inversion_intervals(
        seen.moments, columns.directions, none, columns.direction_sd, counts
    )
    np.testing.assert_array_equal(np.isnan(found.estimate), [True, False])
    one = inversion_intervals(
        seen.moments, columns.directions[:1], none, columns.direction_sd[:1], counts
    )
    assert np.isnan(one.estimate).all()


def shares(small: Small, row: Floats, again: Floats) -> tuple[float, float]:
    seen = seen_with(small, row)
    replicate = Replicate(again[:, :, None], np.ones(len(row), dtype=bool))
    shared = shared_moments(
        row[:, :, None], replicate, small.columns.values, seen.tested, seen.scale
    )
    counts = resampled_counts(24, 20, rng=np.random.default_rng(0))
    weights = unique_weights(seen.moments, small.columns.baseline, small.columns.ols)
    share = share_of_reproducible(seen.moments, shared, weights, counts)
    return float(share.estimate[0]), float(
        reproducible_share(seen.moments, shared, counts).estimate[0]
    )


def test_the_share_of_a_row_without_noise_is_what_the_baseline_cannot_explain(
    small: Small,
) -> None:
    """1 - R2 of M0* for the least-squares row, by plain lstsq."""
    share, reproducible = shares(small, small.ols, small.ols)
    base = small.columns.values[..., small.columns.baseline].reshape(
        -1, len(small.columns.baseline)
    )
    target = small.columns.values[..., small.columns.ols].ravel()
    fit = np.linalg.lstsq(base, target, rcond=None)[0]
    left = ((target - base @ fit) ** 2).sum() / (target**2).sum()
    np.testing.assert_allclose(share, left, atol=1e-3)
    np.testing.assert_allclose(reproducible, 1.0)


def test_noise_lowers_the_reproducible_part_and_not_its_share(small: Small) -> None:
    """Noise of the signal's own variance keeps 7/8 x 19/20 of it when it is centred over 8 queries
    and 20 examples: 1/(1 + 133/160) is reproducible. 3,840 cells, four draws: standard error .01.
    """
    clean, _ = shares(small, small.ols, small.ols)
    found = [
        shares(small, small.ols + noise_like(small, k), small.ols + noise_like(small, 100 + k))
        for k in range(4)
    ]
    np.testing.assert_allclose(np.mean([share for share, _ in found]), clean, atol=0.05)
    np.testing.assert_allclose(np.mean([part for _, part in found]), 160 / 293, atol=0.03)


def test_two_runs_without_anything_in_common_have_no_share(small: Small) -> None:
    share, _ = shares(small, noise_like(small, 7), noise_like(small, 8))
    assert np.isnan(share)


def test_contexts_that_were_not_run_twice_are_left_out(small: Small) -> None:
    row, again = small.ols + noise_like(small, 1), small.ols + noise_like(small, 2)
    valid = np.arange(24) < 15
    broken = np.where(valid[:, None, None], again, np.nan)
    seen = seen_with(small, row)
    shared = shared_moments(
        row[:, :, None],
        Replicate(broken[:, :, None], valid),
        small.columns.values,
        seen.tested,
        seen.scale,
    )
    counts = resampled_counts(15, 20, rng=np.random.default_rng(0))
    found = reproducible_share(seen.moments, shared, counts)
    one, two = (double_centred(part[valid]) for part in (row, again))
    expected = (one * two).sum() / (0.5 * ((one**2).sum() + (two**2).sum()))
    np.testing.assert_allclose(found.estimate[0], expected, rtol=1e-9)


def test_the_spike_equals_testing_spiked_rows_anew(small: Small) -> None:
    """The closed form against the whole test, run on rows to which least squares was added."""
    held = (-0.8, -0.5, -0.3, 0.0, 0.1, 0.2)  # rows that hold least squares already, either sign
    plain = [noise_like(small, k) + part * small.ols for k, part in enumerate(held)]
    seen = seen_with(small, *plain)
    data = folded_rows(seen)
    columns = small.columns
    signs = flip_signs(24, 500, rng=np.random.default_rng(2))
    ratios = log_ratio(compare(data, columns.baseline, columns.ols))
    critical = critical_value(max_t_null(ratios, signs), 0.05)
    power = found_by_share(data, columns.baseline, columns.ols, critical)
    assert [share for share, _ in power] == list(SHARES)
    column = columns.values[..., columns.ols]
    for share, found in power[2::2]:
        size = np.sqrt(share / (1 - share) / (column**2).mean())
        spiked = [double_centred(row) / double_centred(row).std() + size * column for row in plain]
        again = compare(folded_rows(seen_with(small, *spiked)), columns.baseline, columns.ols)
        t = t_statistic(log_ratio(again))
        unique = unique_over_explained(*(part.sum(axis=0) for part in again[:3]))
        named = (t > critical) & (again.coefficient > 0).all(axis=0) & (unique >= 0.1)
        np.testing.assert_allclose(found, named.mean())


def test_more_is_found_where_more_is_spiked(small: Small) -> None:
    data = folded_rows(seen_with(small, *(noise_like(small, k) for k in range(20))))
    power = found_by_share(data, small.columns.baseline, small.columns.ols, 4.0)
    found = [part for _, part in power]
    assert found[0] == 0.0
    assert found[-1] == 1.0
    assert (np.diff(found) >= 0).all()


def test_the_least_share_by_hand() -> None:
    """90 % from .3 on; a lapse at .2 after .1 does not count."""
    power = ((0.05, 0.0), (0.1, 0.95), (0.2, 0.5), (0.3, 0.9), (0.4, 1.0))
    assert least_share(power) == 0.3
    assert np.isnan(least_share(((0.1, 1.0), (0.2, 0.8))))
    assert np.isnan(least_share(()))


def crossed(small: Small, data: Folded, counts: Floats) -> CrossEstimate | None:
    base, ols = small.columns.baseline, small.columns.ols
    return cross_estimate(data, compare(data, base, ols), None, base, ols, counts)


def test_halves_choose_on_their_own_contexts_and_are_measured_on_the_others(
    small: Small,
) -> None:
    """Row 0 holds least squares in the even folds only, row 1 in the odd ones: each half chooses
    its own row, which on the other half is noise."""
    groups = assign_folds(24, 8, rng=np.random.default_rng(1))
    even = (groups % 2 == 0)[:, None, None]
    first = 3.0 * np.where(even, small.ols, 0.0) + noise_like(small, 1)
    second = 3.0 * np.where(even, 0.0, small.ols) + noise_like(small, 2)
    data = folded(seen_with(small, first, second).moments, groups)
    counts = resampled_counts(24, 200, rng=np.random.default_rng(0))
    found = crossed(small, data, counts)
    assert found is not None
    assert found.rows == (0, 1)
    assert not found.unique_over_explained.estimate[0] > 0.05
    steady = folded(seen_with(small, second - first, 3.0 * small.ols + first).moments, groups)
    again = crossed(small, steady, counts)
    assert again is not None
    assert again.rows == (1, 1)
    assert again.unique_over_explained.estimate[0] > 0.3


def test_a_sure_and_tiny_part_is_not_chosen_before_a_sizable_one() -> None:
    """Rows 0 and 2 have the larger t, but only 1 and 2 are preferred."""
    t = np.array([9.0, 4.0, 5.0])
    assert best_row(t, np.array([False, True, True]), np.array([True, True, True])) == 2
    assert best_row(t, np.array([False, False, False]), np.array([True, True, False])) == 0
    assert best_row(t) == 0


def test_too_few_folds_have_no_halves(small: Small) -> None:
    groups = np.arange(24) % 3
    data = folded(seen_with(small, small.ols).moments, groups)
    assert crossed(small, data, np.ones((2, 24))) is None
