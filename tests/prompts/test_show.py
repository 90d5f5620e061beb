from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prompts.contexts import Context, draw_contexts
from prompts.design import Design
from prompts.layouts import LAYOUTS, layout_named, render
from prompts.numerals import CODECS
from prompts.refusal import Refusal
from prompts.show import show_prompt
from tests.prompts.small_tokenizers import irregular, single_digits

ONE = Context(
    np.array([[1.25, 0.75], [0.5, 2.0]]),
    np.array([3.5, 1.0]),
    np.array([[0.25, 1.5]]),
    np.array([1.0]),
)


def shown(codec: str = "unsigned-decimal", layout: str = "line", **options: Any) -> str:
    drawn = draw_contexts(Design(contexts=1), CODECS[codec], rng=np.random.default_rng(0))
    contexts = replace(drawn, contexts=(ONE,))
    return show_prompt(contexts, layout=layout_named(layout), **options)


def test_numbers_are_marked() -> None:
    assert shown() == (
        "context 1 of 1, query 1 of 1; examples: 2, features: x1, x2\n"
        "layout 'line', codec 'unsigned-decimal', target of the query (y): 1.00\n"
        "[x] <y> {separator}\n"
        "\n"
        "x: [1.25], [0.75]; y: <3.50>{⏎}\n"
        "x: [0.50], [2.00]; y: <1.00>{⏎}\n"
        "x: [0.25], [1.50]; y: \n"
    )


def test_token_borders_are_marked() -> None:
    text = shown(tokenizer=single_digits())
    assert "\nx|:| |[1|.|2|5]|,| |[0|.|7|5]|;| y|:| |<3|.|5|0>|{⏎}\n" in text
    assert "⏎}\n|x|:| |[0|.|2|5]|,| |[1|.|5|0]|;| y|:| |\n" in text
    # 22 tokens an example; x : ␣ 0 . 2 5 , ␣ 1 . 5 0 ; ␣y : ␣ are 17.
    assert "tokens: 44 before the query, 17 in it; the answer is predicted at position 60" in text
    assert "tokens of each example: x 8, y 4, separator 1, all 22" in text
    assert text.endswith("token before the text: none\n")


def test_the_prompt_ends_where_the_answers_first_token_would_start() -> None:
    text = shown("decimal", tokenizer=single_digits(lead="<s>"))
    assert "|;| y|:|\n\n" in text
    assert "position 60" in text
    assert f"token before the text: {single_digits(lead='<s>').bos_token_id}" in text


def test_refusals() -> None:
    with pytest.raises(Refusal, match="query 1 to 1 is needed; came 2"):
        shown(query=1)
    with pytest.raises(Refusal, match="context 1 to 1 is needed; came 0"):
        shown(index=-1)
    with pytest.raises(Refusal, match="equal token counts"):
        shown(tokenizer=irregular())


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"arrow"}))
def test_unmarking_gives_the_prompt_back(layout: str) -> None:
    text = shown(layout=layout).split("\n\n", 1)[1]
    prompt = render(
        ONE,
        0,
        layout=LAYOUTS[layout],
        codec=CODECS["unsigned-decimal"],
        feature_names=("x1", "x2"),
        target_name="y",
    )
    assert text.translate(str.maketrans("", "", "[]<>{}⏎")) == prompt.text + "\n"
