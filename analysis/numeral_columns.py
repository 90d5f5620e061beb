"""Columns that only look at the printed strings: what a head that compares numerals would score."""

import numpy as np
from numpy.typing import NDArray

from analysis.design import ContextArrays, Floats, Texts


def character_codes(texts: Texts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Code points of each string, padded with zeros, and the strings' lengths."""
    fixed = np.asarray(texts, dtype=np.str_)
    width = max(fixed.dtype.itemsize // 4, 1)
    codes = np.ascontiguousarray(fixed).view(np.uint32).reshape(*fixed.shape, width)
    return codes.astype(np.int64), np.char.str_len(fixed).astype(np.int64)


def edit_distance(a: Texts, b: Texts) -> Floats:
    """Levenshtein distance in characters between broadcast string arrays (integers >= 0)."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.str_), np.asarray(b, dtype=np.str_))
    codes_a, length_a = character_codes(a)
    codes_b, length_b = character_codes(b)
    rows, columns = codes_a.shape[-1] + 1, codes_b.shape[-1] + 1
    table = np.zeros((rows, columns, *a.shape), dtype=np.int16)
    table[:, 0] = np.arange(rows).reshape(-1, *[1] * a.ndim)
    table[0, :] = np.arange(columns).reshape(-1, *[1] * a.ndim)
    for i in range(1, rows):
        for j in range(1, columns):
            differs = codes_a[..., i - 1] != codes_b[..., j - 1]
            shorter = np.minimum(table[i - 1, j], table[i, j - 1]) + 1
            table[i, j] = np.minimum(shorter, table[i - 1, j - 1] + differs)
    index = np.indices(a.shape)
    return np.asarray(table[(length_a, length_b, *index)], dtype=np.float64)


def digit_characters(texts: Texts) -> NDArray[np.int64]:
    """The digits of each numeral in order, sign and point left out; -1 beyond the last digit."""
    codes, _ = character_codes(texts)
    is_digit = (codes >= ord("0")) & (codes <= ord("9"))
    order = np.argsort(~is_digit, axis=-1, kind="stable")
    digits = np.take_along_axis(np.where(is_digit, codes - ord("0"), -1), order, axis=-1)
    return digits[..., : max(int(is_digit.sum(axis=-1).max(initial=1)), 1)]


def signed_first_digit(texts: Texts) -> Floats:
    """The first digit of each numeral with the numeral's sign."""
    negative = np.char.startswith(np.asarray(texts, dtype=np.str_), "-")
    return np.where(negative, -1.0, 1.0) * digit_characters(texts)[..., 0]


def lexical_columns(contexts: ContextArrays) -> dict[str, Floats]:
    """Minus summed edit distance; equal first digit and first-digit distance per feature."""
    query, example = contexts.query_text[:, :, None, :], contexts.x_text[:, None, :, :]
    first_query, first_example = signed_first_digit(query), signed_first_digit(example)
    columns = {"edit distance": -edit_distance(query, example).sum(axis=-1)}
    for j in range(contexts.x.shape[2]):
        columns[f"equal first digit, x{j + 1}"] = (
            first_query[..., j] == first_example[..., j]
        ).astype(np.float64)
        columns[f"first-digit distance, x{j + 1}"] = -np.abs(
            first_query[..., j] - first_example[..., j]
        )
    return columns
