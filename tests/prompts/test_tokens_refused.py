"""Prompts whose tokens cannot be told apart, and the sentences that say so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prompts.layouts import LAYOUTS
from prompts.refusal import Refusal
from prompts.tokens import tokenize_all
from tests.prompts.small_contexts import by_hand, cut, small, texts
from tests.prompts.small_tokenizers import irregular, single_digits, unlike_signs


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


def test_a_tokenizer_without_bos_cannot_always_have_one() -> None:
    tokenizer = single_digits()
    tokenizer.bos_token = None
    with pytest.raises(Refusal, match="no BOS token"):
        cut(small(), tokenizer, bos="always")
