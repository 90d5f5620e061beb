"""Undefined is a word; an interval's three numbers share their decimals."""

import math

import numpy as np
import pytest

from analysis.inference import Interval
from analysis.number_text import (
    bytes_text,
    interval_text,
    is_missing,
    number_text,
    p_text,
    percent_text,
    seconds_text,
    share_text,
)


@pytest.mark.parametrize("nothing", [None, math.nan, np.float32("nan")])
def test_what_is_undefined_is_said_and_never_zero(nothing: object) -> None:
    assert is_missing(nothing)
    shares = (percent_text, share_text)
    for write in (number_text, interval_text, p_text, *shares, seconds_text, bytes_text):
        assert write(nothing) == "undefined"
        assert write(nothing, missing="not assessable") == "not assessable"


def test_a_text_is_never_undefined() -> None:
    assert not is_missing("nan")
    assert number_text("nan") == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (20, "20"),
        (0.31, "0.310"),
        (-12.345, "-12.3"),
        (1.9e-6, "1.90e-06"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (math.inf, "infinite"),
    ],
)
def test_a_number_has_three_significant_digits(value: object, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Interval(0.31, 0.27, 0.35), "0.310 [0.270, 0.350]"),
        ({"estimate": 0.012, "low": -0.0001, "high": 0.03}, "0.012 [0.000, 0.030]"),
        ((0.8, -120.0, 300.0), "0.80 [-120.00, 300.00]"),
        ((65.1, 60.0, 70.25), "65.1 [60.0, 70.2]"),
        ((0.915, 0.42, 1.41), "0.915 [0.420, 1.410]"),
        ((2e-6, 1e-6, 3e-6), "0.000002 [0.000001, 0.000003]"),
        ((0.31, math.nan, None), "0.310 [undefined, undefined]"),
        ((None, 0.1, 0.2), "undefined"),
        (0.18, "0.180"),
        (np.float32(0.5), "0.500"),
    ],
)
def test_an_interval_is_written_whole(value: object, text: str) -> None:
    assert interval_text(value) == text


def test_an_interval_of_two_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="needed estimate, low and high"):
        interval_text((0.1, 0.2))


def test_p_values_keep_the_digits_that_2000_flips_can_give() -> None:
    assert [p_text(p) for p in (1 / 2001, 0.0499, 1.0, 1e-9)] == [
        "0.0005",
        "0.050",
        "1.000",
        "< 0.0001",
    ]


def test_durations_and_sizes_carry_their_unit() -> None:
    assert [seconds_text(s) for s in (0.25, 552, 3601)] == ["0.250 s", "9 min 12 s", "1 h 1 s"]
    assert [bytes_text(b) for b in (12, 2.4e9)] == ["12 bytes", "2.40 GB"]
    assert [percent_text(s) for s in (1.0, 0.984375)] == ["100 %", "98.4 %"]


def test_a_share_in_a_sentence_has_two_digits_and_a_blank_before_its_sign() -> None:
    shares = (0.0, 0.005, 0.0734, 0.1, 0.284, 1.0)
    assert [share_text(s) for s in shares] == ["0 %", "0.5 %", "7.3 %", "10 %", "28 %", "100 %"]
