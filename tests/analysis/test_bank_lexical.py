"""Numerals as strings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from analysis.bank import BANK, scores
from analysis.bank.lexical import edit_distance, first_digits
from analysis.design import ContextArrays


def printed(example: list[str], query: list[str]) -> ContextArrays:
    """One context of one example and one query, of which only the numerals matter."""
    features = len(example)
    return ContextArrays(
        x=np.zeros((1, 1, features)),
        y=np.zeros((1, 1)),
        queries=np.zeros((1, 1, features)),
        x_text=np.array([[example]]),
        query_text=np.array([[query]]),
        answers=np.zeros((1, 1)),
    )


def recursive(first: str, second: str) -> int:
    """Levenshtein distance straight from its definition."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        recursive(first[1:], second) + 1,
        recursive(first, second[1:]) + 1,
        recursive(first[1:], second[1:]) + (first[0] != second[0]),
    )


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("3.50", "3.50", 0),
        ("3.50", "3.05", 2),
        ("512", "125", 2),  # drop 5, append 5
        ("-0.75", "0.75", 1),
        ("", "12", 2),
        ("kitten", "sitting", 3),
    ],
)
def test_edit_distances_by_hand(first: str, second: str, distance: int) -> None:
    assert edit_distance(np.array([first]), np.array([second])) == [distance]


numeral = st.text(alphabet="-.0125", max_size=5)


@given(st.lists(st.tuples(numeral, numeral), min_size=1, max_size=4))
def test_edit_distances_agree_with_the_definition(pairs: list[tuple[str, str]]) -> None:
    first, second = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    assert_array_equal(edit_distance(first, second), [recursive(a, b) for a, b in pairs])


def test_scores_are_summed_over_features() -> None:
    # 1.25 to 1.52: 2 edits; 0.75 to 0.75: 0. First digits 1 = 1 and 0 = 0; then 7 against 9.
    assert_allclose(scores(BANK["edit"], printed(["1.25", "0.75"], ["1.52", "0.75"])), [[[-2]]])
    same = printed(["1.25", "7.50"], ["1.52", "9.75"])
    assert_allclose(scores(BANK["first_digit"], same), [[[1]]])
    assert_allclose(scores(BANK["first_digit_distance"], same), [[[-2]]])


def test_the_first_digit_stands_after_signs_and_blanks() -> None:
    assert_array_equal(first_digits(np.array([" 1.25", "-0.75", "+3.50", "912"])), [1, 0, 3, 9])


def test_a_numeral_without_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="needed at least one digit; came 'nan'"):
        first_digits(np.array(["1.25", "nan"]))
