"""What the answers are worth: gate, agreement and label."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.agreement import agreement
from analysis.bank import BANK, Hypothesis, hypothesis_named, own_hypothesis, predict, rows
from analysis.behaviour import Behaviour, behaviour
from analysis.design import ContextArrays, Floats
from analysis.held_out import RIVALS, held_out_errors, tuned_prediction, units_of
from tests.analysis.drawn import contexts_of

FEW = [BANK[name] for name in ("ols", "ridge(1)", "gd(1)", "kernel(1)", "nearest(1)", "uniform")]


def drawn(count: int, seed: int, *, noise: float = 0.1) -> tuple[ContextArrays, Floats]:
    """Contexts of y = w'x + b + noise and the queries' own y; N = 10, M = 4, P = 2.

    The signal's sd is .28 in every context, as in the studies' own designs.
    """
    rng = np.random.default_rng(seed)
    scale = np.array([0.3, 0.1])
    points = rng.standard_normal((count, 14, 2)) * scale
    slopes = rng.standard_normal((count, 2))
    slopes *= 0.28 / np.linalg.norm(slopes * scale, axis=1, keepdims=True)
    offset = rng.uniform(-0.15, 0.15, (count, 1))
    noises = 0.28 * noise * rng.standard_normal((count, 14))
    y = np.einsum("cnp,cp->cn", points, slopes) + offset + noises
    return contexts_of(points[:, :10], y[:, :10], points[:, 10:]), y[:, 10:]


def answering(contexts: ContextArrays, name: str, seed: int, *, spread: float) -> ContextArrays:
    """The same contexts, answered by a hypothesis with reading noise."""
    noise = np.random.default_rng(seed).standard_normal(contexts.answers.shape)
    return contexts._replace(answers=predict(BANK[name], contexts) + spread * noise)


def by_hand() -> tuple[ContextArrays, Floats]:
    """Two contexts at P = 1, examples (0, 0) and (1, 2), queries at .25 and .75."""
    x = np.array([[[0.0], [1.0]]] * 2)
    contexts = contexts_of(x, np.array([[0.0, 2.0]] * 2), np.array([[[0.25], [0.75]]] * 2))
    answers = np.array([[0.5, 1.0], [np.nan, 2.5]])
    return contexts._replace(answers=answers), np.array([[0.5, 1.5], [0.5, 1.5]])


def test_held_out_errors_by_hand() -> None:
    """Model: context 1 misses by 0 and .5, context 2 by 1 (one answer unread).

    Mean (1): .5, .5 and .5. Last (2): 1.5, .5 and .5. Nearest (0, 2): .5, .5 and .5.
    """
    seen = held_out_errors(*by_hand())
    assert (seen.asked, seen.readable, seen.units) == (4, 3, 2)
    assert_allclose(seen.absolute["model"].estimate, (0.25 + 1) / 2)
    assert_allclose(seen.squared["model"].estimate, (0.125 + 1) / 2)
    assert_allclose(seen.absolute["mean"].estimate, 0.5)
    assert_allclose(seen.absolute["last"].estimate, (1.0 + 0.5) / 2)
    assert_allclose(seen.squared["last"].estimate, (1.25 + 0.25) / 2)
    assert_allclose(seen.absolute["nearest"].estimate, 0.5)
    assert_allclose(seen.absolute["ridge"].estimate, 0.0, atol=1e-12)
    # -.25 and .5: mean .125, half width 12.7062 * .375.
    paired = seen.absolute_difference["mean"]
    half = 12.7062 * 0.375
    assert_allclose(paired, [0.125, 0.125 - half, 0.125 + half], rtol=1e-5)


def test_contexts_of_one_block_are_one_unit() -> None:
    contexts, targets = by_hand()
    seen = held_out_errors(contexts, targets, blocks=[7, 7])
    assert seen.units == 1
    assert_allclose(seen.absolute["model"].estimate, 0.5)  # 0, .5 and 1
    assert np.isnan(seen.absolute["model"].low)


def test_rivals_are_tuned_on_other_units() -> None:
    """A candidate that is best on one context alone, a fold of its own, is not chosen there."""
    contexts, targets = drawn(8, 0)
    ols, mean = BANK["ols"], BANK["uniform"]
    spoiled = targets.copy()
    spoiled[0] = predict(mean, contexts)[0]
    chosen = tuned_prediction(contexts, spoiled, [mean, ols], units_of(contexts, None))
    assert_array_equal(chosen, predict(ols, contexts))


def test_every_error_is_on_the_same_queries() -> None:
    """Answers equal to a rival's leave no difference, however many are unread."""
    contexts, targets = drawn(8, 1)
    contexts = answering(contexts, "nearest(1)", 0, spread=0.0)
    contexts.answers[::2, 1:] = np.nan
    seen = held_out_errors(contexts, targets)
    assert_allclose(seen.absolute["model"], seen.absolute["nearest"])
    assert_allclose(seen.absolute_difference["nearest"], 0.0, atol=1e-12)


@pytest.mark.parametrize("truth", ["ols", "gd(1)", "kernel(1)", "nearest(1)"])
def test_answers_of_a_hypothesis_are_nearest_to_it(truth: str) -> None:
    contexts, targets = drawn(40, 2)
    seen = behaviour(answering(contexts, truth, 3, spread=0.02), targets, FEW)
    assert seen.label == f"nearest to {truth}"
    assert seen.nearest == (truth,)
    # Reading noise of variance 4e-4 is all that parts them.
    variance = contexts.y.var(axis=1, ddof=1).mean()
    assert_allclose(seen.agreement[0].spd.estimate, 4e-4 / variance, rtol=0.2)
    assert seen.passes_gate


def test_one_prediction_under_two_names_is_named_once() -> None:
    contexts, targets = drawn(40, 6)
    few = [BANK["ols"], BANK["min_norm"], BANK["uniform"]]
    seen = behaviour(answering(contexts, "ols", 7, spread=0.02), targets, few)
    assert seen.label == "nearest to ols"
    assert [one.same_as for one in seen.agreement] == ["", "ols", ""]


def test_a_hypothesis_of_the_users_own_joins() -> None:
    def first(contexts: ContextArrays) -> Floats:
        """The first example."""
        weights = np.zeros((*contexts.queries.shape[:2], contexts.x.shape[1]))
        weights[:, :, 0] = 1
        return weights

    mine = own_hypothesis(first, family="positional")
    contexts, targets = drawn(30, 8)
    contexts = contexts._replace(answers=predict(mine, contexts))
    seen = agreement(contexts, targets, [*FEW, mine])
    assert seen[0].hypothesis == "first"
    assert_allclose(seen[0].spd.estimate, 0, atol=1e-12)
    assert all(one.separable for one in seen[1:])


def test_answers_no_better_than_the_mean_fail_the_gate() -> None:
    contexts, targets = drawn(40, 9)
    seen = behaviour(answering(contexts, "uniform", 10, spread=0.05), targets, FEW)
    assert seen.label == "does not beat the mean"
    assert (seen.passes_gate, seen.beats_mean, seen.beats_nearest) == (False, False, False)
    assert seen.sentence.startswith("The answers do not beat the mean: over 40 contexts")
    assert "worse than the nearest example" in seen.sentence


def test_the_gate_says_how_the_answers_stand_to_each_rival() -> None:
    contexts, targets = drawn(60, 11)
    seen = behaviour(answering(contexts, "ols", 12, spread=0.08), targets, FEW)
    assert set(seen.standing) == set(RIVALS)
    assert seen.standing["mean"] == "better"
    assert seen.standing["last"] == "better"
    assert seen.standing["ridge"] == "worse"
    assert "answers beat the mean" in seen.sentence


def test_unread_answers_are_left_out_and_counted() -> None:
    contexts, targets = drawn(40, 13)
    contexts = answering(contexts, "ols", 14, spread=0.02)
    whole = behaviour(contexts, targets, FEW)
    contexts.answers[:, 0] = np.nan
    seen = behaviour(contexts, targets, FEW)
    assert seen.parse_rate == 0.75
    assert "(120 of 160 answers read)" in seen.sentence
    assert seen.label == whole.label


@pytest.mark.parametrize(("count", "assessable"), [(3, False), (5, False), (6, True)])
def test_few_contexts_are_not_assessable(count: int, assessable: bool) -> None:
    contexts, targets = drawn(count, 15)
    seen = behaviour(answering(contexts, "ols", 16, spread=0.02), targets, FEW)
    assert seen.assessable is assessable
    if not assessable:
        assert seen.label.startswith(f"not assessable: {count} contexts with a readable answer")
        assert "at least 6 are needed" in seen.sentence
        assert (seen.beats_mean, seen.beats_nearest, seen.passes_gate) == (None, None, False)
        assert np.isfinite(seen.errors.absolute["model"].estimate)
        assert len(seen.agreement) == len(FEW)


def test_one_context_is_described_without_intervals() -> None:
    contexts, targets = drawn(1, 17)
    seen = behaviour(answering(contexts, "ols", 18, spread=0.02), targets, FEW)
    assert seen.label.startswith("not assessable: 1 context with a readable answer")
    assert np.isnan(seen.errors.absolute["model"].low)
    assert np.isnan(seen.errors.absolute["ridge"].estimate)


def test_no_readable_answer_is_not_assessable() -> None:
    contexts, targets = drawn(8, 19)
    seen = behaviour(contexts._replace(answers=np.full((8, 4), np.nan)), targets, FEW)
    assert seen.label == "not assessable: none of 32 answers could be read as a number"
    assert seen.parse_rate == 0
    assert seen.nearest == ()
    assert np.isnan(seen.agreement[0].spd.estimate)
    assert [one.hypothesis for one in seen.agreement] == [one.name for one in FEW]


def test_y_that_never_varies_is_not_assessable() -> None:
    contexts, targets = drawn(8, 20)
    flat = contexts._replace(y=np.full_like(contexts.y, 0.3))
    seen = behaviour(flat, np.full_like(targets, 0.3), FEW)
    assert seen.label == "not assessable: y does not vary within any context"
    assert np.isnan(seen.agreement[0].spd.estimate)


def test_blocks_are_named_in_the_sentence() -> None:
    contexts, targets = drawn(16, 21)
    contexts = answering(contexts, "ols", 22, spread=0.02)
    blocks = np.repeat(np.arange(8), 2).tolist()
    seen = behaviour(contexts, targets, FEW, blocks=blocks, unit="block of rows")
    assert "over 8 blocks of rows" in seen.sentence
    few = behaviour(contexts, targets, FEW, blocks=[0] * 8 + [1] * 8, unit="block of rows")
    assert few.label.startswith("not assessable: 2 blocks of rows")


def test_the_sentence_speaks_in_printed_units() -> None:
    contexts, targets = drawn(40, 23)
    contexts = contexts._replace(answers=targets + 0.02)
    assert "off by 10 on average" in behaviour(contexts, targets, FEW, printed_size=500).sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("targets", r"targets needed the shape \(8, 4\) \(contexts, queries\); came \(8, 3\)"),
        ("answers", r"answers needed the shape \(8, 4\) \(contexts, queries\); came \(8, 1\)"),
        ("nan", r"targets needed finite numbers; came nan at \(context, query\) = \(1, 2\)"),
        ("blocks", "blocks needed one entry for each of 8 contexts; came 2"),
    ],
)
def test_what_does_not_fit_is_refused(change: str, sentence: str) -> None:
    contexts, targets = drawn(8, 24)
    blocks = None
    if change == "targets":
        targets = targets[:, :3]
    elif change == "answers":
        contexts = contexts._replace(answers=np.zeros((8, 1)))
    elif change == "nan":
        targets[1, 2] = np.nan
    else:
        blocks = [0, 1]
    with pytest.raises(ValueError, match=sentence):
        behaviour(contexts, targets, FEW, blocks=blocks)


def studies(count: int, answer: str, *, spread: float, of: int) -> list[Behaviour]:
    """`of` studies of `count` contexts each, cut from one draw."""
    contexts, targets = drawn(count * of, 25)
    contexts = answering(contexts, answer, 26, spread=spread)
    made = []
    for study in range(of):
        cut = slice(study * count, (study + 1) * count)
        part = ContextArrays(*(array[cut] for array in contexts))  # type: ignore[arg-type]
        made.append(behaviour(part, targets[cut], FEW[:3]))
    return made


def test_paired_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """The truth is the mean over 8,000 other contexts; 200 studies of 12 contexts; nominal .95."""
    contexts, targets = drawn(8000, 27)
    truth = held_out_errors(answering(contexts, "kernel(1)", 28, spread=0.05), targets)
    made = studies(12, "kernel(1)", spread=0.05, of=200)
    for rival in ("mean", "nearest", "kernel", "ridge"):
        right = truth.absolute_difference[rival].estimate
        intervals = [one.errors.absolute_difference[rival] for one in made]
        covered = np.mean([one.low <= right <= one.high for one in intervals])
        assert 0.91 < covered < 0.985, rival


def test_answers_like_the_mean_seldom_pass_the_gate() -> None:
    """Answers are the mean plus a coin's worth of noise: 2.5 % may pass; of 200 at most 5 %."""
    made = studies(12, "uniform", spread=0.001, of=200)
    assert np.mean([one.passes_gate for one in made]) <= 0.05


def test_answers_between_two_hypotheses_are_seldom_nearest_to_one() -> None:
    """Equally far from both by construction: a single name may come in 5 % of studies."""
    contexts, targets = drawn(12 * 300, 29)
    pair: list[Hypothesis] = [BANK["ols"], BANK["kernel(1)"]]
    ends = [predict(one, contexts) for one in pair]
    noise = np.random.default_rng(30).standard_normal(targets.shape)
    answers = (ends[0] + ends[1]) / 2 + 0.1 * noise
    named = 0
    for study in range(300):
        cut = slice(12 * study, 12 * study + 12)
        part = ContextArrays(*(array[cut] for array in contexts))  # type: ignore[arg-type]
        lines = agreement(part._replace(answers=answers[cut]), targets[cut], pair)
        named += lines[1].separable
    assert named / 300 <= 0.085


def shaken(seed: int) -> Hypothesis:
    """kernel(1) with small noise in every weight, the same for all contexts."""

    def row(contexts: ContextArrays) -> Floats:
        shape = (*contexts.queries.shape[1:2], contexts.x.shape[1])
        return rows(BANK["kernel(1)"], contexts) + 0.005 * np.random.default_rng(seed).normal(
            size=shape
        )

    return own_hypothesis(row, name=f"shaken {seed}", family="kernel")


def test_the_named_hypotheses_hold_the_right_one_among_many() -> None:
    """Thirty rivals close to the right one: it is missing from the set in 5 % at most."""
    contexts, targets = drawn(12 * 100, 31)
    contexts = answering(contexts, "kernel(1)", 32, spread=0.05)
    many = [BANK["kernel(1)"], *(shaken(seed) for seed in range(30))]
    held = 0
    for study in range(100):
        cut = slice(12 * study, 12 * study + 12)
        part = ContextArrays(*(array[cut] for array in contexts))  # type: ignore[arg-type]
        lines = agreement(part, targets[cut], many)
        held += not next(one for one in lines if one.hypothesis == "kernel(1)").separable
    assert held / 100 >= 0.95


def test_hypotheses_that_are_far_off_do_not_hide_a_difference() -> None:
    """Stepping down: once separated, a rival no longer widens the others' intervals."""
    contexts, targets = drawn(40, 33)
    contexts = answering(contexts, "kernel(1)", 34, spread=0.05)
    close = [BANK["kernel(1)"], hypothesis_named("kernel(0.92)")]
    far = [hypothesis_named(f"recency({0.01 * step})") for step in range(1, 61)]
    alone, among = (agreement(contexts, targets, few) for few in (close, [*close, *far]))
    assert among[:2] == alone
    assert alone[1].separable
    assert all(one.separable for one in among[2:])
