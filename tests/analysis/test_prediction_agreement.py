"""Agreement by implied weights, sensitivity and errors; tuning and best steps on other contexts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

from analysis.agreement import agreement, class_of, nearest_names
from analysis.bank import BANK, hypothesis_named, predict
from analysis.design import ContextArrays
from analysis.held_out import units_of
from analysis.prediction_agreement import (
    agreement_frame,
    along_prefixes,
    cosine,
    error_similarity,
    implied_weights,
    prediction_agreement,
    prefixed,
    sensitivity,
)
from analysis.prediction_agreement_steps import (
    STEPS,
    best_steps_by_layer,
    best_steps_by_prefix,
    step_predictions,
    steps_frame,
)
from analysis.simulate import SimulatedDesign, simulate_contexts
from analysis.tuning import TUNABLE, predictors, tuned, tuned_families
from tests.analysis.drawn import conditioned, conditioned_contexts


def simulated(contexts: int = 16, *, condition: float = 10.0, seed: int = 0) -> ContextArrays:
    design = SimulatedDesign(contexts=contexts, queries=6, condition=condition)
    return simulate_contexts(design, rng=np.random.default_rng(seed))


def answered(contexts: ContextArrays, name: str) -> ContextArrays:
    return contexts._replace(answers=predict(hypothesis_named(name), contexts))


def test_weights_implied_by_answers_are_those_of_scikit_learn() -> None:
    contexts = answered(simulated(), "kernel(1)")
    contexts.answers[2, 1] = np.nan
    found = implied_weights(contexts.queries, contexts.answers)
    for context, weights in enumerate(found):
        known = np.isfinite(contexts.answers[context])
        fitted = LinearRegression().fit(
            contexts.queries[context][known], contexts.answers[context][known]
        )
        assert_allclose(weights, fitted.coef_, atol=1e-9)


@given(conditioned_contexts(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_line_implies_its_own_slopes(drawn: tuple[ContextArrays, float], seed: int) -> None:
    contexts, _ = drawn
    rng = np.random.default_rng(seed)
    features = contexts.x.shape[2]
    queries = rng.standard_normal((len(contexts.x), features + 2, features))
    slopes = rng.standard_normal((len(contexts.x), features))
    answers = np.einsum("cmp,cp->cm", queries, slopes) + 0.7
    assert_allclose(implied_weights(queries, answers), slopes, atol=1e-6)


def test_weights_that_the_queries_do_not_determine_are_undefined() -> None:
    queries = np.array([[[0.0, 0], [1, 1], [2, 2], [3, 3]], [[0, 0], [1, 0], [0, 1], [1, 1]]])
    answers = np.array([[0.0, 1, 2, 3], [0.0, 1, np.nan, np.nan]])
    assert np.isnan(implied_weights(queries, answers)).all()


def test_cosines_by_hand() -> None:
    """(1, 0) with itself 1, with (1, 1) 1 / sqrt 2, with 0 undefined."""
    found = cosine(np.array([[1.0, 0], [1, 0], [0, 0]]), np.array([[2.0, 0], [1, 1], [1, 0]]))
    assert_allclose(found, [1, np.sqrt(0.5), np.nan])


def test_weight_differences_and_cosines_by_hand() -> None:
    """Model y = q, other y = 3 q: |1 - 3|^2 = 4, 4 times |1|^2; cosine 1; slopes 1 and 3."""
    contexts = conditioned(features=1, queries=4)
    contexts = contexts._replace(answers=contexts.queries[:, :, 0])
    line = prediction_agreement(
        contexts,
        {"three": lambda asked: 3 * asked.queries[:, :, 0]},
        model_sensitivity=np.ones((3, 4, 1)),
        step=0.01,
    )[0]
    assert_allclose(line.ilwd.interval, [4, 4, 4])
    assert_allclose(line.ilwd_share.interval, [4, 4, 4])
    assert_allclose(line.sim_w.interval, [1, 1, 1])
    assert line.sensitivity_cosine is not None
    assert line.sensitivity_l2 is not None
    assert_allclose(line.sensitivity_cosine.interval, [1, 1, 1])
    assert_allclose(line.sensitivity_l2.interval, [2, 2, 2])
    assert line.sim_e is None


@pytest.mark.parametrize("name", ["ols", "ridge(0.1)", "gd(4)", "newton(2)"])
def test_a_linear_predictor_is_sensitive_by_the_weights_that_it_implies(name: str) -> None:
    contexts = answered(simulated(), name)
    found = sensitivity(lambda asked: predict(BANK[name], asked), contexts, step=0.01)
    weights = implied_weights(contexts.queries, contexts.answers)
    assert_allclose(found, np.broadcast_to(weights[:, None], found.shape), atol=1e-8)


def test_every_hypothesis_agrees_with_itself() -> None:
    """ILWD 0, cosines 1 or undefined and counted: the mean has no slope, lexical no sensitivity."""
    contexts = simulated(6)
    lengths = (5, 10, 20)
    targets = contexts.answers
    for one in BANK.values():
        answer = predictors([one])[one.name]
        played = contexts._replace(answers=answer(contexts))
        line = prediction_agreement(
            played,
            {one.name: answer},
            model_sensitivity=sensitivity(answer, played, step=0.05),
            step=0.05,
            prefix_answers=along_prefixes(answer, played, lengths),
            lengths=lengths,
            targets=targets,
        )[0]
        assert_allclose(line.ilwd.interval.estimate, 0, atol=1e-12)
        for found in (line.sim_w, line.sensitivity_cosine, line.sim_e):
            assert found is not None
            if found.undefined < found.cells:
                assert_allclose(found.interval.estimate, 1.0)
            else:
                assert np.isnan(found.interval.estimate)


def test_errors_over_prefixes_by_hand() -> None:
    """Errors (1, 2) and (2, -1) are at right angles, (1, 2) and (2, 4) are not; NaN is counted."""
    targets = np.zeros((2, 2))
    model = np.array([[[1.0, 1], [1, np.nan]], [[2.0, 2], [2, 1]]])
    other = np.array([[[2.0, 2], [2, 1]], [[-1.0, 4], [4, 1]]])
    found = error_similarity(model, other, targets, units_of(answered(simulated(2), "ols"), None))
    assert found.undefined == 1
    assert_allclose(found.interval.estimate, (0.5 + 1.0) / 2)


def test_a_hypothesis_at_a_prefix_sees_the_first_examples_only() -> None:
    contexts = simulated(4)
    changed = contexts._replace(x=contexts.x.copy(), y=contexts.y.copy())
    changed.x[:, 7:] += 1.0
    changed.y[:, 7:] -= 1.0
    answer = predictors([BANK["ridge(0.1)"]])["ridge(0.1)"]
    assert_array_equal(
        along_prefixes(answer, contexts, [3, 7]), along_prefixes(answer, changed, [3, 7])
    )
    with pytest.raises(ValueError, match="needed 1 to 20 examples; came 21"):
        prefixed(contexts, 21)


def test_a_family_is_tuned_on_other_contexts() -> None:
    """The context whose own best is another candidate does not get it."""
    contexts = answered(simulated(8), "ridge(0.1)")
    few = [hypothesis_named(name) for name in ("ridge(1)", "ridge(0.1)")]
    contexts.answers[0] = predict(few[0], contexts)[0]
    found = tuned("ridge", few, contexts)
    assert found.chosen == ("ridge(0.1)",) * 8
    assert_array_equal(found.predict(contexts), predict(few[1], contexts))
    table = found.table()
    assert len(table) == 16
    assert table.loc[table["fold"] == 0, "squared_distance"].iloc[1] < 1e-20
    assert table.loc[table["fold"] == 1, "squared_distance"].iloc[1] > 1e-6
    contexts.answers[1:] = np.nan
    with pytest.raises(ValueError, match=r"at least 2 units with a readable answer .* came 1"):
        tuned("ridge", few, contexts)


def test_every_tuned_family_finds_its_member() -> None:
    contexts = simulated(10)
    for name, members in TUNABLE.items():
        played = answered(contexts, members[-2])
        found = tuned_families(played)[f"{name} (tuned)"]
        assert_allclose(found.predict(played), played.answers, atol=1e-9)


def test_tuned_families_are_compared_in_pairs_like_every_hypothesis() -> None:
    """Least squares with reading noise: ridge is tuned close to it and is kin, kernels are not."""
    contexts = answered(simulated(30), "ols")
    contexts.answers[:] += 0.05 * np.random.default_rng(1).standard_normal((30, 6))
    families = tuned_families(contexts)
    many = [BANK["ols"], *(families[f"{name} (tuned)"].hypothesis() for name in TUNABLE)]
    lines = agreement(contexts, np.zeros_like(contexts.answers), many)
    told = {one.hypothesis for one in lines if one.separable}
    assert {"kernel (tuned)", "laplace (tuned)", "gd(1) (tuned)"} <= told
    nearest = nearest_names(lines)
    assert "ridge (tuned)" in nearest
    assert class_of(nearest, many, contexts)[:2] == ("ols", "ridge (tuned)")


@pytest.mark.parametrize(("algorithm", "place"), [("gd", 4), ("newton", 5)])
def test_the_step_that_made_the_answers_is_the_best_one(algorithm: str, place: int) -> None:
    contexts = simulated(20)
    made = step_predictions(contexts, algorithm)
    found = best_steps_by_layer(contexts, made[[place, 0]], algorithm, rng=np.random.default_rng(0))
    steps = STEPS[algorithm]
    assert found[0].steps == (steps[place],) * 3
    assert_allclose(found[0].spd.estimate, 0, atol=1e-12)
    assert [one.at_edge for one in found] == [False, True]
    assert list(steps_frame(found)["place"]) == [0, 1]


def test_best_steps_along_prefixes_use_the_prefix() -> None:
    contexts, lengths = simulated(20), (6, 12, 20)
    answers = along_prefixes(predictors([hypothesis_named("gd(16)")])["gd(16)"], contexts, lengths)
    answers[1] = np.nan
    found = best_steps_by_prefix(contexts, answers, lengths, "gd", rng=np.random.default_rng(0))
    assert [one.place for one in found] == [6, 12, 20]
    assert [found[0].steps.estimate, found[2].steps.estimate] == [16, 16]
    assert (found[1].used, np.isnan(found[1].steps.estimate)) == (0, True)
    with pytest.raises(ValueError, match="needed one of gd, newton; came 'adam'"):
        step_predictions(contexts, "adam")


def test_the_table_cites_each_measure() -> None:
    contexts = answered(simulated(), "ols")
    table = agreement_frame(prediction_agreement(contexts, predictors([BANK["kernel(1)"]])))
    assert list(table["measure"]) == ["ilwd", "ilwd_share", "sim_w"]
    assert table["source"].str.contains(r"\d{4}\.\d{5}").all()
