"""Which name speaks for hypotheses that answers cannot tell apart, and on which queries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.agreement import agreement
from analysis.bank import Hypothesis, hypothesis_named, predict
from analysis.behaviour import behaviour
from tests.analysis.drawn import contexts_of
from tests.analysis.test_behaviour import answering, drawn


def saying(name: str, answers: list[list[float]]) -> Hypothesis:
    """A hypothesis that gives these answers."""
    return Hypothesis(name, "own", name, row=None, predictor=lambda _: np.array(answers))


def test_kin_that_noise_hides_share_the_simplest_name() -> None:
    """A ridge listed first and nearer by luck is spoken for by ols, and is said beside it."""
    contexts, targets = drawn(40, 4)
    few = [hypothesis_named(name) for name in ("ridge(0.0001)", "gd(1024)", "ols", "kernel(1)")]
    seen = behaviour(answering(contexts, "ols", 5, spread=0.1), targets, few)
    assert seen.label == "nearest to ols"
    assert set(seen.nearest) == {"ols", "ridge(0.0001)", "gd(1024)"}
    assert seen.inseparable == ("ridge(0.0001)", "gd(1024)")
    assert "not separable from it on this design: ridge(0.0001), gd(1024)." in seen.sentence
    spd = next(one.spd for one in seen.agreement if one.hypothesis == "ols")
    assert f"nearest to ols, at a squared distance of {spd.estimate:.2g} of" in seen.sentence


@pytest.mark.parametrize(
    "rival",
    ["local_linear(50,1e-06)", "pcr(1)"],
    ids=["another family", "of its family, but it inverts nothing"],
)
def test_no_name_speaks_for_what_is_no_kin(rival: str) -> None:
    contexts, targets = drawn(40, 4)
    few = [hypothesis_named(name) for name in ("ols", rival, "kernel(1)")]
    answers = (predict(few[0], contexts) + predict(few[1], contexts)) / 2
    noise = np.random.default_rng(5).standard_normal(answers.shape)
    seen = behaviour(contexts._replace(answers=answers + 0.1 * noise), targets, few)
    assert seen.label in (f"not separable among ols, {rival}", f"not separable among {rival}, ols")
    assert seen.inseparable == ()
    assert "the nearest cannot be told apart" in seen.sentence


def test_an_alias_never_leads() -> None:
    """With one feature nine rows are least squares up to rounding; the first listed is named."""
    rng = np.random.default_rng(40)
    points, slopes = rng.uniform(-1, 1, (30, 14, 1)), rng.choice([-0.6, 0.6], (30, 1))
    y = slopes * points[:, :, 0] + 0.02 * rng.standard_normal((30, 14))
    contexts = contexts_of(points[:, :10], y[:, :10], points[:, 10:])
    seen = behaviour(answering(contexts, "diagonal", 41, spread=0.01), y[:, 10:])
    assert seen.label == "nearest to ols"
    aliases = {one.hypothesis for one in seen.agreement if one.same_as == "ols"}
    assert {"min_norm", "diagonal", "factor(1)", "gd_per_context(1)"} <= aliases
    assert {"ridge(0.001)"} <= set(seen.inseparable)


def test_rounding_does_not_choose_between_two_names_of_one_prediction() -> None:
    """The answers are the second name's to the last bit, yet the first is named."""
    contexts = contexts_of(np.zeros((8, 3, 1)), np.array([[0.0, 1, 2]] * 8), np.zeros((8, 2, 1)))
    exact = [[0.5 + 1e-12] * 2] * 8
    pair = [saying("first", [[0.5] * 2] * 8), saying("second", exact)]
    lines = agreement(contexts._replace(answers=np.array(exact)), np.zeros((8, 2)), pair)
    assert [(one.hypothesis, one.same_as) for one in lines] == [("first", ""), ("second", "first")]


def test_queries_on_which_rivals_agree_can_be_left_out() -> None:
    """By hand, two contexts, answers 0: predictions (1, 1), (1, 1) against (1, 3), (1, 1.1).

    Var(y) is 2 in each. All queries: differences (0 + 8) / 2 and (0 + .21) / 2, over 2: 1.02625.
    Only those further apart than .5: 8 in context 1, context 2 has none, over 2: 4.
    """
    x = np.array([[[0.0], [1.0]]] * 2)
    contexts = contexts_of(x, np.array([[0.0, 2.0]] * 2), np.zeros((2, 2, 1)))
    near, far = saying("near", [[1.0, 1], [1, 1]]), saying("far", [[1.0, 3], [1, 1.1]])
    targets = np.zeros((2, 2))
    whole, told = (
        agreement(contexts, targets, [near, far], spread=spread)[1] for spread in (None, 0.5)
    )
    assert whole.hypothesis == "far"
    assert_allclose(whole.behind_nearest.estimate, (4 + 0.105) / 2 / 2)
    assert_allclose(told.behind_nearest.estimate, 4)
    assert whole.spd == told.spd
    none = agreement(contexts, targets, [near, far], spread=np.full((2, 2), 5.0))[1]
    assert np.isnan(none.behind_nearest.estimate)
    assert not none.separable
