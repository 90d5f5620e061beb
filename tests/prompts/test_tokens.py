from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prompts.layouts import LAYOUTS
from prompts.numerals import CODECS
from prompts.tokens import TokenizedContext, possible_answers, tokenize_context
from tests.prompts.small_contexts import by_hand, contexts, cut, small, texts
from tests.prompts.small_tokenizers import irregular, single_digits, three_digits

TOKENIZERS: dict[str, Callable[[], Any]] = {
    "single_digits": single_digits,
    "trimmed": lambda: single_digits(trim=True),
    "bos": lambda: single_digits(lead="<s>"),
    "three_digits": three_digits,
}


def decoded(tokenizer: Any, tokenized: TokenizedContext, positions: Any) -> str:
    return str(tokenizer.decode(tokenized.prefix[positions]))


def test_tokens_by_hand_one_token_a_digit() -> None:
    tokenizer = single_digits()
    tokenized = cut(small("unsigned-decimal"), tokenizer)
    # x : ␣ 1 . 2 5 , ␣ 0 . 7 5 ; ␣y : ␣ 3 . 5 0 ↵   is 22 tokens, the numbers 3-6, 9-12, 17-20.
    assert len(tokenized.prefix) == 44
    assert_array_equal(tokenized.parts["x"][0], [3, 4, 5, 6, 9, 10, 11, 12])
    assert_array_equal(tokenized.parts["y"][0], [17, 18, 19, 20])
    assert_array_equal(tokenized.parts["separator"], [[21], [43]])
    assert_array_equal(tokenized.parts["all"][1], np.arange(22, 44))
    # The blank before a digit is a token of its own: it predicts the first digit.
    assert_array_equal(tokenized.prefix_answers, [16, 38])
    assert "".join(texts(tokenizer, tokenized.suffixes[1])) == "x: 0.10, 0.20; y: "
    assert tokenized.bos is None


def test_a_blank_belongs_to_a_number_that_may_be_negative() -> None:
    tokenizer = single_digits()
    tokenized = cut(
        by_hand("decimal", [[1.25, -0.75], [-0.5, 2.0]], [3.5, -1.0], [[0.25, 1.5]], [1.0]),
        tokenizer,
    )
    xs = [texts(tokenizer, tokenized.prefix[row]) for row in tokenized.parts["x"]]
    assert xs[0] == [" ", "1", ".", "2", "5", " -", "0", ".", "7", "5"]
    assert xs[1] == [" -", "0", ".", "5", "0", " ", "2", ".", "0", "0"]
    # ` -` is one token, so the position that predicts an answer of either sign is the colon.
    assert texts(tokenizer, tokenized.prefix[tokenized.prefix_answers]) == [":", ":"]
    assert "".join(texts(tokenizer, tokenized.suffixes[0])) == "x: 0.25, 1.50; y:"


def test_groups_of_three_digits() -> None:
    tokenizer = three_digits()
    tokenized = cut(small("unsigned-decimal"), tokenizer)
    assert texts(tokenizer, tokenized.prefix[tokenized.parts["x"][0]]) == [
        "1",
        ".",
        "25",
        "0",
        ".",
        "75",
    ]
    integers = by_hand("unsigned-integer", [[7, 42]], [999], [[0, 512]], [3])
    tokenized = cut(integers, tokenizer)
    assert texts(tokenizer, tokenized.prefix[tokenized.parts["x"][0]]) == ["007", "042"]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("layout", ["line", "feature-block", "named-block"])
def test_parts_hold_the_numerals_and_prompts_continue(name: str, codec: str, layout: str) -> None:
    tokenizer, given = TOKENIZERS[name](), contexts(codec)
    for index, context in enumerate(given.contexts):
        tokenized = tokenize_context(given, index, tokenizer, layout=LAYOUTS[layout])
        read = partial(decoded, tokenizer, tokenized)
        for i, y in enumerate(context.y):
            numerals = "".join(given.codec.text(x) for x in context.x[i])
            assert read(tokenized.parts["x"][i]).replace(" ", "") == numerals
            assert read(tokenized.parts["y"][i]).strip() == given.codec.text(y)
            assert read(tokenized.parts["separator"][i]) in ("\n", "\n\n")
            first = int(tokenized.prefix_answers[i]) + 1
            answer = tokenizer.decode(
                tokenized.prefix[first : int(tokenized.parts["y"][i][-1]) + 1]
            )
            assert answer.lstrip(" ") == given.codec.text(y)
        for query, suffix in zip(context.queries, tokenized.suffixes, strict=True):
            ids = [*tokenized.prefix, *suffix]
            whole = tokenizer.decode(ids, skip_special_tokens=True)
            assert tokenizer(whole)["input_ids"][: len(ids)] == ids or codec == "decimal"
            assert whole.rstrip(" ").endswith(":")
            assert given.codec.text(query[-1]) in whole


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("codec", CODECS)
def test_the_prompt_continues_to_every_answer(name: str, codec: str) -> None:
    """An identity: prompt ids + the answer's own ids = the ids of prompt and answer together."""
    tokenizer, given = TOKENIZERS[name](), contexts(codec, count=1)
    tokenized = cut(given, tokenizer)
    prompt = [*tokenized.prefix, *tokenized.suffixes[0]]
    text = tokenizer.decode(prompt, skip_special_tokens=True)
    for answer in possible_answers(given.codec):
        joined = text.rstrip(" ") + " " + answer
        assert tokenizer(joined)["input_ids"][: len(prompt)] == prompt


def test_possible_answers_start_in_every_way() -> None:
    assert possible_answers(CODECS["unsigned-integer"]) == tuple(f"{d}00" for d in range(10))
    signed = possible_answers(CODECS["signed-decimal"])
    assert {answer[0] for answer in signed} == {"+", "-"}
    assert len(possible_answers(CODECS["decimal"])) == 19


def test_a_blank_inside_the_first_digits_piece_belongs_to_the_number() -> None:
    tokenizer = irregular()
    tokenized = cut(small("unsigned-integer(1,0)"), tokenizer)
    assert texts(tokenizer, tokenized.prefix[tokenized.parts["y"][0]]) == [" 4"]
    assert "".join(texts(tokenizer, tokenized.suffixes[0])).endswith("y:")


def test_bos_is_read_off_the_ids() -> None:
    plain, with_bos = single_digits(), single_digits(lead="<s>")
    assert not getattr(with_bos, "add_bos_token", False)  # the attribute says nothing
    given = small("unsigned-decimal")
    base = cut(given, plain, bos="never")
    for tokenizer, policy, bos in (
        (plain, "auto", None),
        (plain, "always", plain.bos_token_id),
        (with_bos, "auto", with_bos.bos_token_id),
        (with_bos, "always", with_bos.bos_token_id),
        (with_bos, "never", None),
    ):
        tokenized = cut(given, tokenizer, bos=policy)
        shift = int(bos is not None)
        assert tokenized.bos == bos
        assert_array_equal(tokenized.prefix[shift:], base.prefix)
        assert_array_equal(tokenized.suffixes, base.suffixes)
        assert_array_equal(tokenized.prefix_answers, base.prefix_answers + shift)
        for part, positions in tokenized.parts.items():
            assert_array_equal(positions, base.parts[part] + shift)


def test_special_tokens_that_come_unasked_are_seen() -> None:
    tokenizer = single_digits(lead="<s>")

    class Unasked:
        """Adds BOS and end mark also when asked not to."""

        bos_token_id = tokenizer.bos_token_id
        all_special_ids = tokenizer.all_special_ids

        def __call__(self, text: Any, **options: Any) -> Any:
            return tokenizer(text, **(options | {"add_special_tokens": True}))

    given = small("unsigned-decimal")
    for policy, bos in (("auto", tokenizer.bos_token_id), ("never", None)):
        one, other = (cut(given, t, bos=policy) for t in (tokenizer, Unasked()))
        assert one.bos == other.bos == bos
        assert_array_equal(one.prefix, other.prefix)
        assert_array_equal(one.suffixes, other.suffixes)
        assert_array_equal(one.parts["x"], other.parts["x"])


def test_all_that_stands_before_the_text_is_kept() -> None:
    tokenizer = single_digits(lead="</s> <s>")
    base = cut(small(), tokenizer, bos="never")
    for policy in ("auto", "always"):
        tokenized = cut(small(), tokenizer, bos=policy)
        assert tokenized.bos == tokenizer.eos_token_id
        assert_array_equal(tokenized.prefix[:2], [tokenizer.eos_token_id, tokenizer.bos_token_id])
        assert_array_equal(tokenized.prefix[2:], base.prefix)
        assert_array_equal(tokenized.prefix_answers, base.prefix_answers + 2)


@pytest.mark.parametrize("name", ["single_digits", "three_digits"])
def test_trimmed_offsets_change_nothing(name: str) -> None:
    given = contexts("decimal")
    plain, trimmed = cut(given, single_digits()), cut(given, single_digits(trim=True))
    assert_array_equal(plain.prefix, trimmed.prefix)
    assert_array_equal(plain.suffixes, trimmed.suffixes)
    for part in plain.parts:
        assert_array_equal(plain.parts[part], trimmed.parts[part])
