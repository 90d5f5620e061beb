"""Rows that compare numerals as strings and know nothing of their size."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from analysis.bank.hypothesis import Hypothesis
from analysis.bank.kernels import softmax_rows
from analysis.design import ContextArrays, Floats, Texts

STRINGS = "2502.01540"
ZERO, NINE = ord("0"), ord("9")


def characters(texts: Texts) -> NDArray[np.uint32]:
    """Code points of each text, (..., longest), 0 after its end."""
    wide = np.ascontiguousarray(texts)
    longest = max(wide.dtype.itemsize // 4, 1)
    return wide.astype(f"<U{longest}").view("<u4").reshape(*wide.shape, longest)


def edit_distance(first: Texts, second: Texts) -> Floats:
    """Levenshtein distance of each text in `first` to the one in `second` at the same place.

    Insertions, deletions and substitutions cost 1. Both arrays have one shape, which the result
    shares.
    """
    left, right = characters(first), characters(second)
    left_length, right_length = (left != 0).sum(axis=-1), (right != 0).sum(axis=-1)
    result = np.zeros(left.shape[:-1])
    above = [np.full(left.shape[:-1], float(column)) for column in range(right.shape[-1] + 1)]
    for row in range(left.shape[-1] + 1):
        if row:
            line = [np.full(left.shape[:-1], float(row))]
            for column in range(1, right.shape[-1] + 1):
                unequal = left[..., row - 1] != right[..., column - 1]
                shorter = np.minimum(above[column], line[-1]) + 1.0
                line.append(np.minimum(shorter, above[column - 1] + unequal))
            above = line
        for column, reached in enumerate(above):
            here = (left_length == row) & (right_length == column)
            result[here] = reached[here]
    return result


def pairs(contexts: ContextArrays) -> tuple[Texts, Texts]:
    """Numerals of the query and of the example, both (C, M, N, P)."""
    query, example = contexts.query_text[:, :, None], contexts.x_text[:, None]
    shape = np.broadcast_shapes(query.shape, example.shape)
    return np.broadcast_to(query, shape), np.broadcast_to(example, shape)


def first_digits(texts: Texts) -> Floats:
    """The first digit of each numeral, 0 to 9, whatever stands before it."""
    codes = characters(texts)
    digit = (codes >= ZERO) & (codes <= NINE)
    if not digit.any(axis=-1).all():
        wrong = texts[~digit.any(axis=-1)].ravel()[0]
        raise ValueError(f"a numeral needed at least one digit; came {str(wrong)!r}")
    place = digit.argmax(axis=-1)[..., None]
    return np.take_along_axis(codes, place, axis=-1)[..., 0].astype(np.float64) - ZERO


def edit_distances(contexts: ContextArrays) -> Floats:
    """Edit distance of the query's numerals to the example's, summed over features, (C, M, N)."""
    return np.asarray(edit_distance(*pairs(contexts)).sum(axis=3))


def first_digit_differences(contexts: ContextArrays) -> Floats:
    """First digit of the query minus that of the example, for each feature, (C, M, N, P)."""
    query, example = first_digits(contexts.query_text), first_digits(contexts.x_text)
    return np.asarray(query[:, :, None] - example[:, None])


def string_match(name: str, statement: str, score: Callable[[ContextArrays], Floats]) -> Hypothesis:
    """A score of string likeness; its weights are the softmax of the score."""
    return Hypothesis(
        name=name,
        family="lexical",
        statement=statement,
        source=STRINGS,
        row=lambda contexts: softmax_rows(score(contexts)),
        score=score,
    )


def edit() -> Hypothesis:
    """Minus the edit distance between the printed numerals, summed over features."""
    return string_match(
        "edit",
        "minus the edit distance between printed numerals, summed over features",
        lambda contexts: -edit_distances(contexts),
    )


def first_digit() -> Hypothesis:
    """The number of features whose first digits are equal."""
    return string_match(
        "first_digit",
        "the number of features with the same first digit",
        lambda contexts: (first_digit_differences(contexts) == 0).sum(axis=3).astype(np.float64),
    )


def first_digit_distance() -> Hypothesis:
    """Minus the distance between first digits, summed over features."""
    return string_match(
        "first_digit_distance",
        "minus the distance between first digits, summed over features",
        lambda contexts: -np.abs(first_digit_differences(contexts)).sum(axis=3),
    )
