from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prompts.contexts import Context, ContextSet, draw_contexts
from prompts.design import Design
from prompts.layouts import LAYOUTS, layout_named
from prompts.numerals import CODECS, codec_named
from prompts.refusal import Refusal
from prompts.tokens import TokenizedContext, possible_answers, tokenize_all, tokenize_context
from tests.prompts.small_tokenizers import irregular, single_digits, three_digits, unlike_signs

TOKENIZERS: dict[str, Callable[[], Any]] = {
    "single_digits": single_digits,
    "trimmed": lambda: single_digits(trim=True),
    "bos": lambda: single_digits(lead="<s>"),
    "three_digits": three_digits,
}


def contexts(codec: str = "unsigned-decimal", *, count: int = 2, **knobs: Any) -> ContextSet:
    design = Design(contexts=count, examples=5, queries=3, **knobs)
    return draw_contexts(design, codec_named(codec), rng=np.random.default_rng(0))


def by_hand(codec: str, x: list[list[float]], y: list[float], queries: Any, targets: Any) -> Any:
    """A context set of one context with these printed numbers."""
    one = Context(np.array(x), np.array(y), np.array(queries), np.array(targets))
    base = contexts(codec, count=1)
    return replace(base, contexts=(one,), design=None)


def cut(
    given: ContextSet, tokenizer: Any, layout: str = "line", **options: Any
) -> TokenizedContext:
    return tokenize_context(given, 0, tokenizer, layout=layout_named(layout), **options)


def texts(tokenizer: Any, ids: Any) -> list[str]:
    return [tokenizer.decode([int(i)]) for i in ids]


def decoded(tokenizer: Any, tokenized: TokenizedContext, positions: Any) -> str:
    return str(tokenizer.decode(tokenized.prefix[positions]))


def small(codec: str = "decimal") -> Any:
    return by_hand(
        codec, [[1.25, 0.75], [0.5, 2.0]], [3.5, 1.0], [[0.25, 1.5], [0.1, 0.2]], [1.0, 2.0]
    )


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


def test_a_sign_fused_with_punctuation_is_refused() -> None:
    given = by_hand("decimal", [[1.25, -0.75]], [3.5], [[0.5, 0.5]], [1.0])
    with pytest.raises(Refusal) as refused:
        cut(given, single_digits(), "x=({x1},{x2}) y={y}")
    assert refused.value.sentence == (
        "in `x=(1.25,-0.75)` number `-0.75` (characters 8-13) starts inside piece `,-` (7-9)"
    )
    assert refused.value.where == "context 1, query 1, example 1, x2"
    cut(given, single_digits(), "line")


def test_places_count_from_the_examples_own_text() -> None:
    given = by_hand("decimal", [[1.25, 0.75], [1.0, -0.5]], [3.5, 1.0], [[0.5, 0.5]], [1.0])
    with pytest.raises(
        Refusal, match=r"`x=\(1\.00,-0\.50\)` number `-0\.50` \(characters 8-13\)"
    ) as refused:
        cut(given, single_digits(), "x=({x1},{x2}) y={y}")
    assert refused.value.where == "context 1, query 1, example 2, x2"


def test_a_fused_query_or_answer_is_refused() -> None:
    given = by_hand("decimal", [[1.25, 0.75]], [3.5], [[0.5, 0.5], [0.5, -0.5]], [1.0, 1.0])
    with pytest.raises(Refusal, match="starts inside piece `,-`") as refused:
        cut(given, single_digits(), "x=({x1},{x2}) y={y}")
    assert refused.value.where == "context 1, query 2, the query's own x2"
    # No y of the prompt is negative, but an answer may be: `(-` would hold its sign.
    given = by_hand("decimal", [[1.25, 0.75]], [3.5], [[0.5, 0.5]], [1.0])
    with pytest.raises(Refusal, match=r"starts inside piece `\(-`"):
        cut(given, single_digits(), "x: {x1}, {x2} y({y}")


def test_irregular_digits_are_refused_with_both_numbers() -> None:
    given = by_hand(
        "unsigned-decimal", [[1.25, 0.75], [1.24, 0.5]], [3.1, 1.0], [[0.5, 0.5]], [1.0]
    )
    with pytest.raises(Refusal, match="equal token counts") as refused:
        cut(given, irregular())
    assert refused.value.sentence == (
        "numbers of one kind need equal token counts: `1.24` is 4 (` 1` `.` `2` `4`), "
        "but `1.25` is 3 (` 1` `.` `25`) in context 1, query 1, example 1, x1"
    )
    assert refused.value.where == "context 1, query 1, example 2, x1"


def test_a_query_is_cut_like_the_examples() -> None:
    given = by_hand("unsigned-decimal", [[1.25, 0.75]], [3.1], [[1.25, 0.75], [1.24, 0.75]], [1, 1])
    with pytest.raises(Refusal, match=r"`1\.24` is 4 .* but `1\.25` is 3") as refused:
        cut(given, irregular())
    assert refused.value.where == "context 1, query 2, the query's own x1"


def test_unequal_counts_beside_the_numbers_are_refused() -> None:
    # x ␣ + 0 . 5 0 ␣ y ␣ + 1 . 0 0 ↵ is 16 tokens; with ␣- one token it is 15.
    codec, one = "signed-decimal", [[0.5]]
    given = by_hand(codec, [[0.5], [-0.5]], [1, 1], one, [1])
    with pytest.raises(Refusal, match=r"examples have unequal token counts: \[16, 15\]"):
        cut(replace(given, feature_names=("x1",)), unlike_signs(), "x {x1} y {y}")
    given = by_hand(codec, one, [1], [[0.5], [-0.5]], [1, 1])
    with pytest.raises(Refusal, match=r"queries are cut into unequal counts of tokens: \[9, 8\]"):
        cut(replace(given, feature_names=("x1",)), unlike_signs(), "x {x1} y {y}")


def test_a_blank_inside_the_first_digits_piece_belongs_to_the_number() -> None:
    tokenizer = irregular()
    tokenized = cut(small("unsigned-integer(1,0)"), tokenizer)
    assert texts(tokenizer, tokenized.prefix[tokenized.parts["y"][0]]) == [" 4"]
    assert "".join(texts(tokenizer, tokenized.suffixes[0])).endswith("y:")


def test_unequal_counts_without_padding_are_refused() -> None:
    given = by_hand("decimal(2,1)", [[1.2, 0.5], [12.0, 0.5]], [1.0, 2.0], [[0.5, 0.5]], [1.0])
    with pytest.raises(Refusal, match=r"`12\.0` is 5"):
        cut(given, single_digits())
    longer = replace(small().contexts[0], x=np.ones((3, 2)), y=np.ones(3))
    both = replace(given, contexts=(small().contexts[0], longer))
    with pytest.raises(Refusal, match="prefix and query take") as refused:
        tokenize_all(both, single_digits(), layout=LAYOUTS["line"])
    assert refused.value.where == "context 2"


def test_an_end_fused_with_the_next_text_is_refused() -> None:
    class Merged:
        """One piece for every two characters."""

        bos_token_id = None
        all_special_ids = ()

        def __call__(self, text: Any, **options: Any) -> Any:
            many = [text] if isinstance(text, str) else text
            offsets = [[(i, min(i + 2, len(t))) for i in range(0, len(t), 2)] for t in many]
            return {"input_ids": [list(range(len(o))) for o in offsets], "offset_mapping": offsets}

    given = by_hand("unsigned-integer(1,0)", [[1]], [2], [[3]], [4])
    given = replace(given, feature_names=("x1",), middle=np.zeros(2), half_range=np.ones(2))
    with pytest.raises(
        Refusal, match=r"number `1` \(characters 2-3\) ends inside piece `1 ` \(2-4\)"
    ):
        cut(given, Merged(), "x:{x1} y:{y}\\n")


def test_a_separator_needs_a_token_of_its_own() -> None:
    with pytest.raises(Refusal, match=r"separator ` ` .* inside piece ` 0`"):
        cut(small("unsigned-integer(1,0)"), irregular(), "{x1} {x2} {y} ")
    with pytest.raises(Refusal, match=r"separator `;=` .* inside piece `=\(`"):
        cut(small("unsigned-integer(1,0)"), single_digits(), "({x1} {x2} {y};=")
    # A blank at the separator's end may go with the next word.
    tokenizer = single_digits()
    tokenized = cut(small("unsigned-integer(1,0)"), tokenizer, "y{x1} {x2} {y}; ")
    assert texts(tokenizer, tokenized.prefix[tokenized.parts["separator"][0]]) == [";"]


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Slow:
        bos_token_id = None
        all_special_ids = ()

        def __call__(self, text: Any, **options: Any) -> Any:
            return {"input_ids": [[1] for _ in text]}

    class Refusing(Slow):
        def __call__(self, text: Any, **options: Any) -> Any:
            raise NotImplementedError

    class Short(Slow):
        def __call__(self, text: Any, **options: Any) -> Any:
            return {"input_ids": [[1] for _ in text], "offset_mapping": [[(0, 3)] for _ in text]}

    for tokenizer in (Slow(), Refusing()):
        with pytest.raises(Refusal, match=r"character offsets is needed; came (Slow|Refusing)"):
            cut(small(), tokenizer)
    with pytest.raises(Refusal, match="offsets end at character 3"):
        cut(small(), Short())


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


def test_a_tokenizer_without_bos_cannot_always_have_one() -> None:
    tokenizer = single_digits()
    tokenizer.bos_token = None
    with pytest.raises(Refusal, match="no BOS token"):
        cut(small(), tokenizer, bos="always")


@pytest.mark.parametrize("name", ["single_digits", "three_digits"])
def test_trimmed_offsets_change_nothing(name: str) -> None:
    given = contexts("decimal")
    plain, trimmed = cut(given, single_digits()), cut(given, single_digits(trim=True))
    assert_array_equal(plain.prefix, trimmed.prefix)
    assert_array_equal(plain.suffixes, trimmed.suffixes)
    for part in plain.parts:
        assert_array_equal(plain.parts[part], trimmed.parts[part])
