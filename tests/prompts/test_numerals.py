import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from prompts.numerals import CODECS, codec_named
from prompts.refusal import Refusal

numbers = st.floats(-9.994, 9.994)
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("unsigned-integer", 42, "042"),
        ("unsigned-integer", 999, "999"),
        ("unsigned-decimal", 6.24, "6.24"),
        ("decimal", 1.25, "1.25"),
        ("decimal", -0.75, "-0.75"),
        ("signed-decimal", 1.25, "+1.25"),
        ("signed-decimal", -0.75, "-0.75"),
        ("signed-decimal(3,1)", 1.25, "+001.2"),
        ("decimal(3,1)", 12.25, "12.2"),
        ("unsigned-decimal(2,0)", 7.0, "07"),
    ],
)
def test_numerals_by_hand(name: str, number: float, text: str) -> None:
    assert codec_named(name).text(number) == text


def test_minus_zero_prints_as_zero() -> None:
    cells = [-0.004, -0.0, 0.004, -0.006]
    assert [CODECS["decimal"].text(cell) for cell in cells] == ["0.00", "0.00", "0.00", "-0.01"]
    signed = [CODECS["signed-decimal"].text(cell) for cell in cells]
    assert signed == ["+0.00", "+0.00", "+0.00", "-0.01"]
    rounded = CODECS["decimal"].round(cells)
    assert not np.signbit(rounded[:3]).any()


@pytest.mark.parametrize(
    ("name", "number", "shown"),
    [
        ("decimal", 12.5, "12.5"),
        ("decimal", 9.996, "9.996"),
        ("decimal", 1e200, "1e+200"),
        ("unsigned-decimal", -0.01, "-0.01"),
        ("unsigned-integer", 1000, "1000.0"),
        ("decimal", float("nan"), "nan"),
        ("decimal", float("inf"), "inf"),
    ],
)
def test_a_number_that_does_not_fit_is_named(name: str, number: float, shown: str) -> None:
    with pytest.raises(Refusal, match="does not fit") as refused:
        codec_named(name).text(number)
    assert shown in refused.value.sentence


@pytest.mark.parametrize("codec", ["unsigned-decimal", "decimal", "signed-decimal"])
def test_only_numbers_in_the_codecs_own_form_are_read(codec: str) -> None:
    texts = ["3.50", "3.5 (approx)", "nan", "1_000", "٣", "", "1e3", "-0.00"]
    answers = [CODECS[codec].parse_answer(text) for text in texts]
    assert answers == [3.5, None, None, None, None, None, None, 0.0]
    assert not np.signbit(float(answers[-1] or 0.0))


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("decimal", " 3.50\nx: 1.00", 3.5),
        ("decimal", "3.50, and", 3.5),
        ("decimal", "3.50)", 3.5),
        ("decimal", "3.50,000", None),
        ("decimal", "3.501", None),
        ("decimal", "3.50e2", None),
        ("decimal", "3.50.1", None),
        ("decimal", "3.50-4.00", None),
        ("decimal", "3.50%", None),
        ("decimal", "03.50", None),
        ("decimal", "\n3.50", None),
        ("decimal", "about 3.50", None),
        ("decimal", "12.50", None),
        ("decimal", "3.٣0", None),
        ("decimal", "−3.50", None),
        ("decimal", "+-3.50", None),
        ("decimal", "inf", None),
        ("unsigned-decimal", "-1.50", None),
        ("unsigned-integer", "042", 42.0),
        ("unsigned-integer", "42", None),
        ("unsigned-integer", "0420", None),
        ("unsigned-integer", "042.0", None),
        ("signed-decimal", "+1.25", 1.25),
    ],
)
def test_reading_answers(name: str, text: str, answer: float | None) -> None:
    assert CODECS[name].parse_answer(text) == answer


@every_codec
@given(share=st.floats(0, 1))
def test_what_is_printed_is_read_back(codec, share: float) -> None:  # type: ignore[no-untyped-def]
    number = float(codec.round(codec.low + share * (codec.high - codec.low)))
    assert codec.parse_answer(codec.text(number)) == number
    assert codec.parse_answer(codec.text(number) + "\n") == number


@every_codec
@given(share=st.floats(0, 1))
def test_a_padded_numeral_has_one_width(codec, share: float) -> None:  # type: ignore[no-untyped-def]
    text = codec.text(codec.low + share * (codec.high - codec.low))
    digits = text.lstrip("+-")
    assert len(digits) == codec.integer_digits + codec.decimals + (codec.decimals > 0)
    assert text != "-0.00"


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e200, 1e307])
def test_an_affine_codec_prints_the_same_at_every_magnitude(scale: float) -> None:
    # 1, 2, 4 of range 1..4: shares 0, 1/3, 1 of 9.99.
    column = np.array([1.0, 2.0, 4.0]) * scale
    printed = CODECS["unsigned-decimal"].printed(column, low=column[0], high=column[2])
    assert_array_equal(printed, [0.0, 3.33, 9.99])


@given(unit=st.floats(1e-9, 1e9))
def test_a_change_of_unit_flips_no_rounding(unit: float) -> None:
    # In steps of a 1,998th of the range every second number lies halfway between two prints.
    column = np.arange(1999) * 1.0
    codec = CODECS["unsigned-decimal"]
    plain = codec.printed(column, low=0, high=1998)
    assert_array_equal(codec.printed(column * unit, low=0, high=1998 * unit), plain)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_a_range_wider_than_float64_does_not_overflow(scale: float) -> None:
    column = np.array([-1.7e308, 0.0, 1.7e308]) * scale
    printed = CODECS["unsigned-integer"].printed(column, low=-1.7e308, high=1.7e308)
    assert_array_equal(printed, [0, 500, 999][:: int(scale)])


def test_a_constant_column_prints_as_the_middle() -> None:
    printed = CODECS["unsigned-decimal"].printed([7.0, 7.0], low=7.0, high=7.0)
    assert_array_equal(printed, CODECS["unsigned-decimal"].round([4.995, 4.995]))


@given(number=numbers)
def test_rounding_moves_by_at_most_half_a_step(number: float) -> None:
    assert abs(float(CODECS["decimal"].round(number)) - number) <= 0.005 + 1e-12


def test_an_unknown_codec_lists_near_names() -> None:
    with pytest.raises(Refusal, match=r"near names: .*unsigned-decimal"):
        codec_named("unsigned-decimals")
    with pytest.raises(Refusal, match="1 to 15 digits"):
        codec_named("decimal(0,2)")
    with pytest.raises(Refusal, match="1 to 15 digits"):
        codec_named("decimal(10,10)")
