"""Names, parameters, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from analysis.bank import BANK, Hypothesis, hypothesis_named, own_hypothesis, predict, rows
from analysis.bank.naming import parsed, written
from analysis.design import ContextArrays, Floats
from tests.analysis.drawn import conditioned


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("ridge(0.05)", "ridge(0.05)"),
        ("ridge(.05)", "ridge(0.05)"),
        ("ridge( 5e-2 )", "ridge(0.05)"),
        (" ols ", "ols"),
        ("ols()", "ols"),
        ("kernel(1/3)", "kernel(1/3)"),
        ("kernel(2/4)", "kernel(0.5)"),
        ("gd(16)", "gd(16)"),
        ("gd(16, 0.5)", "gd(16,0.5)"),
        ("gd(16,0.9)", "gd(16)"),
        ("gd_metric(identity)", "gd_metric(identity)"),
    ],
)
def test_names_are_read_and_written_in_one_way(asked: str, name: str) -> None:
    assert hypothesis_named(asked).name == name


def test_parameters_reach_the_row() -> None:
    contexts = conditioned()
    loose, tight = (rows(hypothesis_named(f"ridge({p})"), contexts) for p in (0.05, 5))
    assert np.abs(loose - tight).max() > 0.01
    assert hypothesis_named("gated_delta(0.5,0.25)").params == {"gate": 0.5, "step_size": 0.25}


@pytest.mark.parametrize("value", [1 / 3, 2 / 3, 0.1, 1e-12, 3.0, 123456.789, 5 / 12])
def test_a_written_parameter_reads_back_as_the_same_number(value: float) -> None:
    reading = parsed(written("kind", value))
    assert reading is not None
    assert float(reading[1][0]) == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("rige(0.1)", r"unknown hypothesis 'rige\(0.1\)'; near names: ridge\(0.1\)"),
        ("olss", "unknown hypothesis 'olss'; near names: ols$"),
        ("OLS", "unknown hypothesis 'OLS'; near names: .*ols"),
        ("", "unknown hypothesis ''; near names: channel_gated_delta, .*uniform"),
        ("ridge(0.1", r"unknown hypothesis 'ridge\(0.1'; near names: ridge\(0.1\)"),
        ("ridge", r"needed the parameters of 'ridge' \(penalty\); came 0, as in 'ridge\(0.001\)'"),
        ("ridge(1,2)", r"needed the parameters of 'ridge' \(penalty\); came 2"),
        ("ols(1)", r"needed the parameters of 'ols' \(none\); came 1, as in 'ols'"),
        ("ridge(small)", "'ridge': needed a penalty of at least 0; came 'small'"),
        ("ridge(-1)", "'ridge': needed a penalty of at least 0; came -1"),
        ("ridge(nan)", "'ridge': needed a penalty of at least 0; came 'nan'"),
        ("kernel(0)", "'kernel': needed a multiple of the median distance above 0; came 0"),
        ("gd(1.5)", "'gd': needed a whole number of steps, at least 1; came 1.5"),
        ("gd(0)", "'gd': needed a whole number of steps, at least 1; came 0"),
        ("gd(4,1)", "'gd': needed a step size .* between 0 and 1; came 1"),
        ("pcr(0)", "'pcr': needed a whole number of components, at least 1; came 0"),
        ("delta_rule(1.1)", "'delta_rule': needed a step size above 0, at most 1; came 1.1"),
        ("recency(1)", "'recency': needed a decay between 0 and 1; came 1"),
        ("gd_metric(round)", "'gd_metric': needed a metric among identity, pooled; came 'round'"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refusal:
        hypothesis_named(name)
    assert "\n" not in str(refusal.value)


def test_a_hypothesis_needs_a_known_family_and_a_row_or_a_predictor() -> None:
    with pytest.raises(ValueError, match=r"'mine': needed a family among inverse, .*; came 'odd'"):
        Hypothesis(name="mine", family="odd", statement="", row=lambda contexts: contexts.y)
    with pytest.raises(ValueError, match="'mine': needed a row or"):
        Hypothesis(name="mine", family="kernel", statement="", row=None)


def first_example(contexts: ContextArrays) -> Floats:
    """Everything on the first example.

    More words that no list shows.
    """
    weights = np.zeros((*contexts.queries.shape[:2], contexts.x.shape[1]))
    weights[:, :, 0] = 1.0
    return weights


def test_a_function_becomes_a_hypothesis() -> None:
    one = own_hypothesis(first_example, family="positional")
    contexts = conditioned()
    assert (one.name, one.statement) == ("first_example", "Everything on the first example.")
    assert_array_equal(predict(one, contexts), np.repeat(contexts.y[:, :1], 4, axis=1))


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            lambda contexts: contexts.x,
            r"needed an array of shape \(3, 4, 12\) \(contexts, queries, examples\); "
            r"came \(3, 12, 2\)",
        ),
        (lambda contexts: [[1.0], [1.0, 2.0]], "needed an array of numbers .*; came list"),
        (lambda contexts: None, "needed an array of numbers of shape .*; came NoneType"),
        (
            lambda contexts: np.where(first_example(contexts) > 0, np.nan, 0.0),
            r"needed finite numbers; came nan at \(context, query, example\) = \(0, 0, 0\)",
        ),
        (
            lambda contexts: first_example(contexts) * contexts.y[:, None, :],
            "needed weights that do not depend on y",
        ),
    ],
)
def test_a_bad_function_is_refused_when_called(function: object, sentence: str) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match=f"hypothesis 'mine': {sentence}"):
        rows(own_hypothesis(function, name="mine"), conditioned())


def test_a_rival_of_the_y_family_may_read_y() -> None:
    one = own_hypothesis(
        lambda contexts: first_example(contexts) * contexts.y[:, None, :], name="mine", family="y"
    )
    assert rows(one, conditioned()).shape == (3, 4, 12)


def test_a_function_that_writes_into_its_argument_harms_nobody() -> None:
    def careless(contexts: ContextArrays) -> Floats:
        contexts.x[:] = 0.0
        return first_example(contexts)

    contexts = conditioned()
    before = contexts.x.copy()
    rows(own_hypothesis(careless), contexts)
    assert_array_equal(contexts.x, before)


def test_the_bank_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        BANK["mine"] = BANK["ols"]  # type: ignore[index]
