"""Moved numbers: pairs on the printed grid, tokens that change inside one number only."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from prompts.contexts import ContextSet, Floats
from prompts.layouts import layout_named
from prompts.numerals import CODECS, codec_named
from prompts.perturb import (
    answer_pairs,
    checked_order,
    checked_size,
    in_order,
    moved_pairs,
    query_pairs,
    rows_of_answers,
    with_moved_queries,
)
from prompts.perturbed_tokens import moved_prefixes, moved_query_tokens
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context
from tests.prompts.small_contexts import by_hand, contexts, texts
from tests.prompts.small_tokenizers import irregular, single_digits, three_digits

LINE = layout_named("line")


def test_pairs_by_hand() -> None:
    """0 to 9.99: 5 +- .5; 0.2 +- .5 becomes 0, 1 and 9.9 +- .5 becomes 8.99, 9.99."""
    pairs = moved_pairs([5.0, 0.2, 9.9, 0.5], CODECS["unsigned-decimal"], size=0.5)
    assert_array_equal(pairs.plus, [5.5, 1.0, 9.99, 1.0])
    assert_array_equal(pairs.minus, [4.5, 0.0, 8.99, 0.0])
    assert pairs.shifted.tolist() == [False, True, True, False]


@for_all(name=st.sampled_from(sorted(CODECS)), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_pairs_are_printed_numbers_two_sizes_apart(name: str, seed: int, data: Any) -> None:
    codec = CODECS[name]
    step = 10.0**-codec.decimals
    most = int((codec.high - codec.low) / step) // 2
    size = data.draw(st.integers(1, most)) * step
    rng = np.random.default_rng(seed)
    numbers = codec.round(rng.uniform(codec.low, codec.high, 5))
    pairs = moved_pairs(numbers, codec, size=size)
    for side in (pairs.plus, pairs.minus):
        assert_array_equal(side, codec.round(side))
        assert codec.low <= side.min()
        assert side.max() <= codec.high
    assert_allclose(pairs.plus - pairs.minus, 2 * size, rtol=1e-9, atol=1e-9)
    centred = np.abs((pairs.plus + pairs.minus) / 2 - numbers) < step / 4
    assert_array_equal(centred, ~pairs.shifted)


@pytest.mark.parametrize("size", [0.0, -0.5, 0.005, np.nan, np.inf])
def test_a_size_off_the_printed_grid_is_refused(size: float) -> None:
    with pytest.raises(Refusal, match=r"a positive multiple of 0\.01"):
        checked_size(size, CODECS["unsigned-decimal"])


def test_a_size_too_wide_for_the_codec_is_refused() -> None:
    with pytest.raises(Refusal, match=r"2 x 5 apart within 0\.00 to 9\.99"):
        checked_size(5.0, CODECS["unsigned-decimal"])
    assert checked_size(0.1 + 0.2, CODECS["unsigned-decimal"]) == 0.3


def test_a_number_at_the_edge_is_refused_where_asked() -> None:
    of = by_hand("unsigned-decimal", [[1.0], [2.0]], [3.0, 9.9], [[4.0], [9.7]], [1.0, 1.0])
    sentence = (
        r"context 1, example 2, y: needed .* 0\.00 to 9\.99 .* by 0\.5 either way; came 9\.90"
    )
    with pytest.raises(Refusal, match=sentence):
        answer_pairs(of, 0, size=0.5, edge="refuse")
    with pytest.raises(Refusal, match=r"context 1, query 2, x1: .* came 9\.70"):
        query_pairs(of, 0, size=0.5, edge="refuse")
    assert answer_pairs(of, 0, size=0.05, edge="refuse").shifted.sum() == 0
    with pytest.raises(Refusal, match="'shift' or 'refuse'; came 'wrap'"):
        answer_pairs(of, 0, size=0.5, edge="wrap")  # type: ignore[arg-type]


def test_queries_move_one_feature_at_a_time() -> None:
    of = by_hand("unsigned-decimal", [[1.0, 1.0]], [3.0], [[4.0, 5.0], [6.0, 7.0]], [1.0, 2.0])
    moved = with_moved_queries(of.contexts[0], query_pairs(of, 0, size=0.5))
    assert_array_equal(
        moved.queries,
        [
            [4.0, 5.0],
            [6.0, 7.0],
            [4.5, 5.0],
            [3.5, 5.0],
            [4.0, 5.5],
            [4.0, 4.5],
            [6.5, 7.0],
            [5.5, 7.0],
            [6.0, 7.5],
            [6.0, 6.5],
        ],
    )
    assert_array_equal(moved.targets, [1, 2, 1, 1, 1, 1, 2, 2, 2, 2])


def test_an_order_names_each_example_once() -> None:
    context = contexts().contexts[0]
    turned = in_order(context, [4, 2, 0, 1, 3])
    assert_array_equal(turned.y[0], context.y[4])
    assert_array_equal(turned.x[2], context.x[0])
    for wrong in ([0, 1, 2, 3], [0, 0, 1, 2, 3], [1, 2, 3, 4, 5]):
        with pytest.raises(Refusal, match="order of the examples 0 to 4"):
            checked_order(wrong, 5)


TOKENIZERS = {
    "single_digits": single_digits,
    "bos": lambda: single_digits(lead="<s>"),
    "three_digits": three_digits,
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("layout", ["line", "feature-block"])
def test_moved_tokens_are_those_of_the_moved_context(name: str, codec: str, layout: str) -> None:
    """Tokens of every context with one y moved, cut whole by the code that cuts every prompt."""
    tokenizer, of = TOKENIZERS[name](), contexts(codec)
    size = 50.0 if codec == "unsigned-integer" else 0.5
    for index, context in enumerate(of.contexts):
        asked = layout_named(layout)
        tokens = tokenize_context(of, index, tokenizer, layout=asked)
        pairs = answer_pairs(of, index, size=size)
        moved = moved_prefixes(of, index, tokenizer, layout=asked, tokenized=tokens, pairs=pairs)
        assert moved.shape == (5, 2, len(tokens.prefix))
        for i in range(5):
            for side, y in enumerate((pairs.plus[i], pairs.minus[i])):
                answers = [*context.y[:i], y, *context.y[i + 1 :]]
                changed = by_hand(
                    codec, context.x.tolist(), answers, context.queries, context.targets
                )
                whole = tokenize_context(changed, 0, tokenizer, layout=asked)
                assert_array_equal(moved[i, side], whole.prefix)


BARE = layout_named("{x1},{x2}:{y}\n")


def test_a_numeral_that_changes_the_cut_is_refused() -> None:
    """`25` is one piece of this tokenizer; `26` and `24` are two."""
    of = by_hand("unsigned-integer(2,0)", [[31, 32], [33, 34]], [25, 25], [[35, 36]], [37])
    tokenizer = irregular()
    tokens = tokenize_context(of, 0, tokenizer, layout=BARE)
    pairs = answer_pairs(of, 0, size=1)
    sentence = "context 1, example 1, y: needed '26' in the place of '25' to change no token"
    with pytest.raises(Refusal, match=sentence):
        moved_prefixes(of, 0, tokenizer, layout=BARE, tokenized=tokens, pairs=pairs)


def test_moved_queries_have_the_prefix_of_the_context() -> None:
    of, tokenizer = contexts(), single_digits()
    tokens = tokenize_context(of, 1, tokenizer, layout=LINE)
    pairs = query_pairs(of, 1, size=0.5)
    moved = moved_query_tokens(of, 1, tokenizer, layout=LINE, bos="auto", pairs=pairs)
    assert_array_equal(moved.prefix, tokens.prefix)
    assert moved.suffixes.shape == (3 * 2 * 2, tokens.suffixes.shape[1])
    shown = ["".join(texts(tokenizer, suffix)) for suffix in moved.suffixes]
    queries = with_moved_queries(of.contexts[1], pairs).queries[3:]
    assert shown == [f"x: {a:.2f}, {b:.2f}; y: " for a, b in queries]


def test_moved_queries_that_are_cut_otherwise_are_refused() -> None:
    """33 - 8 is `25`, one piece; 33 is two."""
    of = by_hand("unsigned-integer(2,0)", [[31, 32], [33, 34]], [36, 37], [[33, 36]], [37])
    pairs = query_pairs(of, 0, size=8)
    with pytest.raises(Refusal, match=r"context 1, queries moved by 8: .*`25` is 1"):
        moved_query_tokens(of, 0, irregular(), layout=BARE, bos="auto", pairs=pairs)


def weights(of: ContextSet) -> Floats:
    """A row for each query, (C, M, N), of any size and sign."""
    shape = (len(of.contexts), len(of.contexts[0].queries), len(of.contexts[0].y))
    return np.random.default_rng(3).standard_normal(shape)


@pytest.mark.parametrize("size", [0.01, 0.5, 3.0])
def test_a_linear_answerer_has_its_weights_as_rows(size: float) -> None:
    of = contexts("unsigned-decimal")
    rows = weights(of)

    def answer(asked: ContextSet) -> Floats:
        return np.stack([r @ c.y + 2.0 for r, c in zip(rows, asked.contexts, strict=True)])

    assert_allclose(rows_of_answers(answer, of, size=size), rows, atol=1e-9 / size)


def test_rows_of_another_order_are_those_of_the_same_examples() -> None:
    """An answerer that reads the first printed example only: its row is 1 at order[0]."""
    of = contexts("unsigned-decimal")
    orders = [[3, 0, 4, 1, 2], [1, 4, 0, 2, 3]]

    def answer(asked: ContextSet) -> Floats:
        return np.array([[c.y[0]] * 3 for c in asked.contexts])

    rows = rows_of_answers(answer, of, size=0.5, orders=orders)
    expected = np.zeros((2, 3, 5))
    expected[0, :, 3] = expected[1, :, 1] = 1.0
    assert_allclose(rows, expected, atol=1e-12)


def test_contexts_are_not_written_into() -> None:
    of = contexts("unsigned-decimal")
    before = [one.y.copy() for one in of.contexts]
    rows_of_answers(lambda asked: np.zeros((2, 3)), of, size=0.5)
    for kept, one in zip(before, of.contexts, strict=True):
        assert_array_equal(kept, one.y)


def test_a_codec_of_own_width() -> None:
    assert checked_size(2.0, codec_named("unsigned-integer(2,0)")) == 2.0
