"""The row test as a whole: planted heads are named right, and the rules hold."""

import numpy as np
import pytest

from analysis.assembly import assemble
from analysis.bank import Hypothesis, hypothesis_named, rows
from analysis.bootstrap import Intervals
from analysis.families import FamilyTest
from analysis.inference import Interval
from analysis.row_result import CONTAINS, RowTest, index_words
from analysis.row_test import row_test
from analysis.simulate import SimulatedDesign
from tests.analysis.planted_rows import Planted, planted

NAMES = (
    "ols",
    "ridge(0.01)",
    "centred dot",
    "kernel, 1 medians",
    "edit distance",
    "pcr(1)",
    "random places x q",
    "online_gd(0.5)",
)
FAMILY = {
    "ols": "inverse",
    "ridge(0.01)": "inverse",
    "centred dot": "fixed metric",
    "kernel, 1 medians": "kernel",
    "edit distance": "lexical",
    "pcr(1)": "context-scaled",
    "random places x q": "positional",
    "online_gd(0.5)": "online",
}


def run(study: Planted, **options: object) -> RowTest:
    settings: dict[str, object] = {"rng": np.random.default_rng(9), "resamples": 200, **options}
    return row_test(study.scores, study.contexts, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study() -> Planted:
    return planted(NAMES)


@pytest.fixture(scope="module")
def result(study: Planted) -> RowTest:
    return run(study, replicate=study.replicate, pairs=study.pairs)


def test_only_the_heads_that_invert_are_named(result: RowTest) -> None:
    assert [str(said) for said in result.says[:, 0]] == [
        "follows S^-1 (OLS)",
        f"follows S^-1 (partly inverted (index {result.inversion_index.estimate[1]:.2f}))",
        *["none"] * 6,
    ]
    np.testing.assert_array_equal(result.contains(), [True, True] + [False] * 6)


def test_each_family_is_named_right(result: RowTest) -> None:
    np.testing.assert_array_equal(result.families.nearest(), [FAMILY[name] for name in NAMES])


def test_each_family_is_needed_beside_all_others(result: RowTest) -> None:
    """The dot product is not under this noise: cosines and scaled dots mimic it."""
    families = result.families
    for row in (0, 1, 3, 4, 6, 7):
        place = families.families.index(FAMILY[NAMES[row]])
        assert families.p_corrected[row, place] <= 0.05
        assert families.unique_over_explained.estimate[row, place] > 0.1
    assert (families.p_corrected <= 0.05).sum(axis=1)[[0, 1, 2, 3, 4, 6, 7]].tolist() == [
        *[1, 1, 0, 1, 1, 1, 1]
    ]


def test_the_nearest_family_is_detected_and_explains_a_hundredth() -> None:
    """Row 0: the second explains most; row 1: it is not detected; row 2: nothing explains 1 %."""
    alone = np.array([[0.2, 0.5], [0.2, 0.5], [0.009, 0.001]])
    p = np.array([[0.01, 0.05], [0.01, 0.06], [0.01, 0.01]])
    nothing = np.full_like(alone, np.nan)
    bounds = Intervals(nothing, nothing, nothing)
    found = FamilyTest(("kernel", "lexical"), nothing, nothing, bounds, alone, nothing, p)
    assert list(found.nearest()) == ["lexical", "kernel", ""]


def test_without_pairs_nothing_follows(study: Planted) -> None:
    assert run(study).says[0, 0] == CONTAINS


def test_the_same_seed_gives_the_same_numbers(study: Planted, result: RowTest) -> None:
    again = run(study, replicate=study.replicate, pairs=study.pairs)
    for name in ("t", "p_corrected", "coefficient", "explained", "lead", "says"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name), err_msg=name)
    for name in ("unique_over_explained", "share_of_reproducible", "inversion_index", "alone"):
        for one, other in zip(getattr(again, name), getattr(result, name), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert again.chosen == result.chosen
    assert again.design == result.design


def test_permuting_rows_permutes_results(study: Planted, result: RowTest) -> None:
    order = np.random.default_rng(1).permutation(len(NAMES))
    permuted = run(
        study._replace(scores=study.scores[:, :, order]),
        replicate=study.replicate._replace(scores=study.replicate.scores[:, :, order]),
        pairs=study.pairs._replace(
            scores_a=study.pairs.scores_a[:, :, order], scores_b=study.pairs.scores_b[:, :, order]
        ),
    )
    for name in ("t", "p_corrected", "explained", "lead"):
        np.testing.assert_allclose(
            getattr(permuted, name), getattr(result, name)[order], rtol=1e-9, err_msg=name
        )
    np.testing.assert_allclose(
        permuted.share_of_reproducible.low, result.share_of_reproducible.low[order], rtol=1e-9
    )
    np.testing.assert_array_equal(permuted.says, result.says[order])
    np.testing.assert_array_equal(permuted.families.nearest(), result.families.nearest()[order])
    assert NAMES[order[permuted.chosen[0].row]] == NAMES[result.chosen[0].row]


def test_scale_and_shift_of_a_row_change_nothing(study: Planted, result: RowTest) -> None:
    """Per row; and adding anything that is the same for all queries of a context, or for all
    examples of a query, is centred away."""
    rng = np.random.default_rng(2)
    scale = rng.uniform(0.5, 2, len(NAMES))[:, None]
    place = 30 * rng.standard_normal((64, 1, len(NAMES), 20))
    query = 30 * rng.standard_normal((64, 8, len(NAMES), 1))
    moved = row_test(
        study.scores * scale + place + query,
        study.contexts,
        rng=np.random.default_rng(9),
        resamples=200,
    )
    np.testing.assert_allclose(moved.t, result.t, rtol=1e-6)
    np.testing.assert_allclose(moved.coefficient, result.coefficient, rtol=1e-6, atol=1e-9)


def test_p_is_corrected_over_rows_and_hypotheses(study: Planted) -> None:
    """More rows or hypotheses can only raise p, since every flip's maximum is over more."""
    weak = planted(["ols"], noise=12.0, seed=3)
    alone = run(weak).p_corrected[0, 0]
    rng = np.random.default_rng(5)
    crowd = np.concatenate([weak.scores, rng.standard_normal((64, 8, 60, 20))], axis=2)
    with_rows = run(weak._replace(scores=crowd)).p_corrected[0, 0]
    names = ("ols", "ridge(0.1)", "kernel(1)", "online_gd(0.5)")
    with_hypotheses = run(weak, hypotheses=names).p_corrected[0, 0]
    assert alone < with_rows
    assert alone <= with_hypotheses


def test_a_rival_hypothesis_is_compared_with_the_other_families_and_least_squares(
    study: Planted,
) -> None:
    columns = assemble(study.contexts, [hypothesis_named("kernel(1)")])
    against = columns.against("kernel")
    assert columns.ols in against
    assert not set(against) & set(columns.families["kernel"])
    found = run(study, hypotheses=("ols", "kernel(1)"))
    assert found.says[3, 1] == "contains kernel(1)"
    assert found.says[0, 1] == "none"
    np.testing.assert_array_equal(found.contains("kernel(1)"), [False] * 3 + [True] + [False] * 4)


def test_a_hypothesis_of_ones_own_joins_the_test(study: Planted) -> None:
    own = Hypothesis(
        name="mine",
        family="inverse",
        statement="twice least squares",
        row=lambda contexts: 2.0 * rows(hypothesis_named("ols"), contexts),
    )
    found = run(study, hypotheses=("ols", own))
    np.testing.assert_allclose(found.t[:, 1], found.t[:, 0], rtol=1e-6)
    assert found.says[0, 1] == CONTAINS


def test_blind_and_unfinished_rows_are_counted_and_not_tested(study: Planted) -> None:
    scores = study.scores.copy()
    scores[:, :, 2] = scores[:, :1, 2]
    scores[5, 3, 4, 0] = np.nan
    found = run(study._replace(scores=scores))
    assert (found.tested, found.blind, found.outside) == (6, 1, 1)
    assert list(found.status[[2, 4]]) == ["blind", "outside"]
    assert np.isnan(found.t[[2, 4]]).all()
    assert np.isnan(found.families.t[[2, 4]]).all()
    assert list(found.says[[2, 4], 0]) == ["does not see the query", "not finite on every example"]
    assert found.says[0, 0] == CONTAINS


def test_nothing_is_written_into_the_arguments() -> None:
    small = planted(["ols", "edit distance"], design=SimulatedDesign(contexts=10), pairs=10)
    arrays = [small.scores, *small.contexts, small.replicate.scores, small.pairs.scores_a]
    before = [array.copy() for array in arrays]
    run(small, replicate=small.replicate, pairs=small.pairs)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_scores_of_another_shape_are_refused(study: Planted) -> None:
    with pytest.raises(ValueError, match=r"\(64, 8, at least 1, 20\); came \(64, 8, 20\)"):
        row_test(study.scores[:, :, 0], study.contexts, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"came \(64, 8, 0, 20\)"):
        row_test(study.scores[:, :, :0], study.contexts, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("hypotheses", "match"), [((), "came none"), (("ols", "ols"), "'ols' more than once")]
)
def test_hypotheses_are_named_once_and_at_least_one(
    study: Planted, hypotheses: tuple[str, ...], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        run(study, hypotheses=hypotheses)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.81, 1.2, "OLS"),
        (0.8, 1.25, "OLS"),
        (0.5, 0.79, "partly inverted (index 0.64)"),
        (0.5, 0.9, "not separable"),
        (0.9, 1.3, "not separable"),
        (np.nan, np.nan, "not separable"),
    ],
)
def test_the_words_of_the_inversion_index(low: float, high: float, words: str) -> None:
    assert index_words(Interval((low + high) / 2 - 0.005, low, high)) == words


def test_effects_of_the_best_row_come_from_the_half_that_did_not_choose_it(
    study: Planted, result: RowTest
) -> None:
    chosen = result.chosen[0]
    assert chosen.row == int(np.nanargmax(result.t[:, 0]))
    assert chosen.says.startswith("follows S^-1")
    for name in ("unique_over_explained", "share_of_reproducible", "inversion_index"):
        interval = getattr(chosen, name)
        assert interval.low <= interval.estimate <= interval.high
    one = run(
        study._replace(scores=study.scores[:, :, [0]]),
        replicate=study.replicate._replace(scores=study.replicate.scores[:, :, [0]]),
    )
    # with one row there is no choice: the effects are those of the row itself
    assert one.chosen[0].unique_over_explained == one.unique_over_explained.at(0, 0)
    assert one.chosen[0].rows_of_halves == (0, 0)
    assert one.chosen[0].inversion_index == one.inversion_index.at(0)
    assert one.chosen[0].share_of_reproducible == one.share_of_reproducible.at(0, 0)


def test_a_sure_and_tiny_part_is_not_the_best_row() -> None:
    """GD(16) with little noise holds a part of S^-1 that is surer (larger t) than that of a noisy
    least-squares head, and far below a tenth of what is explained."""
    clear, noisy = planted(["gd(16)"], noise=0.05), planted(["ols"], noise=1.2)
    found = run(clear._replace(scores=np.concatenate([clear.scores, noisy.scores], axis=2)))
    assert found.t[0, 0] > found.t[1, 0]
    assert list(found.contains()) == [False, True]
    assert (found.chosen[0].row, found.chosen[0].rows_of_halves) == (1, (1, 1))
    assert found.chosen[0].says == CONTAINS


def test_choosing_among_noise_does_not_flatter_the_chosen(study: Planted) -> None:
    """The best of 150 rows of noise has a unique share above 0 on the contexts that chose it; on
    the others it is as likely to be negative. Held-out overfitting is below 1 % here."""
    noise = np.random.default_rng(6).standard_normal((64, 8, 150, 20))
    found = run(study._replace(scores=noise))
    assert found.chosen[0].says == "none"
    assert not found.contains().any()
    unique = found.chosen[0].unique_over_explained
    assert not unique.low > 0


def test_rows_of_zeros_are_all_blind(study: Planted) -> None:
    found = run(study._replace(scores=np.zeros((64, 8, 1, 20))))
    assert (found.tested, found.blind) == (0, 1)
    assert found.chosen[0].row == -1
    assert np.isnan(found.design.mde)
