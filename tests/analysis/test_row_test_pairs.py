"""Re-paired twin contexts and families: what only reading the other examples can do."""

import numpy as np
import pytest

from analysis.bank import hypothesis_named, rows
from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats
from analysis.pairs import Pairs, PairsTest, pairs_test
from analysis.planted import RIVALS
from analysis.planted.outside import BANKED
from analysis.simulate import SimulatedDesign, simulate_pairs
from tests.analysis.planted_rows import rows_of

PROBES = 10
OLS = hypothesis_named("ols")

READS_OTHERS = {
    # what these divide by, or rank among, is a property of all examples of the context
    *(f"kernel, {name} medians" for name in ("1/3", "1", "3")),
    "kernel, fixed width",
    "laplace",
    "1-nearest",
    "3-nearest",
    "row-normalised dot",
    "dot / lambda_max",
    "Sc^+1",
    "y times answer",
    "kernel of y - answer",
    "last place x q1",
}


@pytest.fixture(scope="module")
def twins() -> tuple[ContextArrays, ContextArrays]:
    return simulate_pairs(SimulatedDesign(), pairs=32, rng=np.random.default_rng(0))


def changes(name: str, twins: tuple[ContextArrays, ContextArrays]) -> Floats:
    first, second = (rows_of(name, one, 3)[..., :PROBES] for one in twins)
    return double_centred(first - second)


@pytest.mark.parametrize(
    "name",
    [head.name for head in RIVALS if head.group == "in M0*" and head.name not in READS_OTHERS],
)
def test_a_head_that_reads_only_query_example_and_place_does_not_change(
    name: str, twins: tuple[ContextArrays, ContextArrays]
) -> None:
    np.testing.assert_allclose(changes(name, twins), 0, atol=1e-12)


def test_any_function_of_query_example_and_place_gives_exactly_zero(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    """However wild: the probes, the queries and the places are the same in both contexts."""

    def wild(contexts: ContextArrays) -> Floats:
        q, x = contexts.queries[:, :, None], contexts.x[:, None]
        place = np.arange(x.shape[2])
        wild_scores = np.sin(9 * q[..., 0] * x[..., 1] + place) * np.exp((q * x).sum(axis=-1)) ** 2
        return np.asarray(wild_scores)

    first, second = (wild(one)[:, :, None, :PROBES] for one in twins)
    np.testing.assert_array_equal(first, second)
    found = run(first, second, twins)
    np.testing.assert_array_equal(found.unmoved, [True])
    assert np.isnan(found.p_corrected).all()
    assert not found.agrees.any()


def test_twins_differ_in_the_pairing_of_the_fillers_only(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    first, second = twins
    np.testing.assert_array_equal(first.x[:, :PROBES], second.x[:, :PROBES])
    np.testing.assert_array_equal(first.y[:, :PROBES], second.y[:, :PROBES])
    np.testing.assert_array_equal(first.queries, second.queries)
    np.testing.assert_array_equal(first.x[:, :, 0], second.x[:, :, 0])
    last = [np.sort(one.x_text[:, PROBES:, 1], axis=1) for one in twins]
    np.testing.assert_array_equal(last[0], last[1])
    for c in range(4):
        ranks = [one.x[c, PROBES:, 1].argsort().argsort() for one in twins]
        # equal numerals may swap places
        assert np.abs(ranks[0] + ranks[1] - 9).max() <= 1
    slopes = [
        ((one.x[:, PROBES:] - one.x[:, PROBES:].mean(axis=1, keepdims=True)).prod(axis=2)).sum(
            axis=1
        )
        for one in twins
    ]
    np.testing.assert_array_less(np.corrcoef(slopes)[0, 1], -0.9)


def run(first: Floats, second: Floats, twins: tuple[ContextArrays, ContextArrays]) -> PairsTest:
    return pairs_test(
        Pairs(first, second, *twins), [OLS], rng=np.random.default_rng(5), flips=1000, folds=8
    )


def noisy(
    names: list[str], twins: tuple[ContextArrays, ContextArrays], noise: float
) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(6)
    pair: list[list[Floats]] = [[], []]
    for name in names:
        rows = [rows_of(name, one, 3)[..., :PROBES] for one in twins]
        size = np.sqrt((double_centred(rows[0]) ** 2).mean()) or 1.0
        for part, row in zip(pair, rows, strict=True):
            part.append(row / size + noise * rng.standard_normal(row.shape))
    return np.stack(pair[0], axis=2), np.stack(pair[1], axis=2)


def test_only_heads_that_invert_agree(twins: tuple[ContextArrays, ContextArrays]) -> None:
    rivals = [head.name for head in RIVALS if head.name not in BANKED]
    names = ["ols", "ridge(0.01)", "gd(256)", *rivals[::3], "online_gd(0.5)", "delta_rule(1)"]
    found = run(*noisy(names, twins, 1.0), twins)
    assert [name for name, yes in zip(names, found.agrees[:, 0], strict=True) if yes] == names[:3]
    assert found.pairs == 32


def test_what_kernels_and_scaled_heads_change_is_their_own(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    """They read the other examples too, and their change resembles that of least squares: with
    little noise their own change, which is in M0, leaves nothing of it (else up to .2)."""
    names = sorted(READS_OTHERS - {"y times answer", "kernel of y - answer", "last place x q1"})
    found = run(*noisy(names, twins, 0.02), twins)
    assert not found.agrees.any()
    np.testing.assert_allclose(found.coefficient, 0, atol=0.02)


def test_a_head_that_inverts_with_the_wrong_sign_does_not_agree(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    first, second = noisy(["ols"], twins, 0.3)
    assert run(first, second, twins).agrees[0, 0]
    turned = run(second, first, twins)
    assert turned.p_corrected[0, 0] <= 0.05
    assert turned.coefficient[0, 0] < 0
    assert not turned.agrees[0, 0]


def test_float_noise_is_no_change(twins: tuple[ContextArrays, ContextArrays]) -> None:
    """Two float32 forwards of a head that does not move differ in the seventh digit."""
    first, _ = noisy(["centred dot"], twins, 0.0)
    again = first * (1 + 1e-6 * np.random.default_rng(0).standard_normal(first.shape))
    assert run(first, again, twins).unmoved[0]


def test_a_row_that_is_not_finite_is_not_tested(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    first, second = noisy(["ols", "ridge(0.01)"], twins, 0.3)
    first[0, 0, 1, 0] = np.nan
    found = run(first, second, twins)
    assert found.agrees[0, 0]
    assert np.isnan(found.t[1, 0])
    assert not found.agrees[1, 0]


def test_the_change_of_least_squares_is_what_is_added(
    twins: tuple[ContextArrays, ContextArrays],
) -> None:
    """Without noise the change of the row is the column itself: coefficient 1 of unit-sd column
    and unit-sd row, up to the bound at 8 sd."""
    first, second = (rows(OLS, one)[:, :, None, :PROBES] for one in twins)
    np.testing.assert_allclose(run(first, second, twins).coefficient, [[1.0]], rtol=0.05)
