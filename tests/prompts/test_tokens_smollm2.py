"""Prompts in the embedded model's own tokens."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from probes.models import load_model
from prompts.contexts import Context, draw_sets
from prompts.design import Design
from prompts.layouts import LAYOUTS, layout_named
from prompts.numerals import CODECS
from prompts.refusal import Refusal
from prompts.tokens import tokenize_all, tokenize_context

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_model("smollm2-135m").tokenizer


@pytest.mark.parametrize("codec", ["unsigned-decimal", "unsigned-integer"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_fits_unsigned_codecs(tokenizer: Any, codec: str, layout: str) -> None:
    sets = draw_sets(Design(contexts=4), CODECS[codec], pairs=2, rng=np.random.default_rng(0))
    for contexts in (sets.main, sets.replicate, sets.pairs_a, sets.pairs_b):
        for tokenized in tokenize_all(contexts, tokenizer, layout=LAYOUTS[layout]):
            digits = len(CODECS[codec].text(0.0))
            assert tokenized.parts["y"].shape == (20, digits)
            assert tokenized.parts["x"].shape == (20, 2 * digits)
            assert tokenizer.decode(tokenized.suffixes[0])[-1] == " "
            assert tokenized.bos is None


def test_re_paired_twins_share_their_probes_tokens(tokenizer: Any) -> None:
    sets = draw_sets(Design(), CODECS["unsigned-decimal"], pairs=3, rng=np.random.default_rng(0))
    a, b = (
        tokenize_all(contexts, tokenizer, layout=LAYOUTS["line"])
        for contexts in (sets.pairs_a, sets.pairs_b)
    )
    for one, other in zip(a, b, strict=True):
        end = int(one.parts["separator"][9, -1]) + 1
        np.testing.assert_array_equal(one.prefix[:end], other.prefix[:end])
        np.testing.assert_array_equal(one.suffixes, other.suffixes)
        assert one.prefix.shape == other.prefix.shape


def test_minus_zero_would_be_one_token_longer(tokenizer: Any) -> None:
    assert [len(tokenizer(text)["input_ids"]) for text in ("0.00", "-0.00")] == [4, 5]


def test_a_sign_after_a_comma_is_refused_and_after_a_blank_is_not(tokenizer: Any) -> None:
    base = draw_sets(Design(contexts=1), CODECS["decimal"], rng=np.random.default_rng(0)).main
    one = Context(
        np.array([[1.25, -0.75]]), np.array([3.5]), np.array([[0.5, 0.5]]), np.array([1.0])
    )
    contexts = replace(base, contexts=(one,))
    with pytest.raises(Refusal) as refused:
        tokenize_context(contexts, 0, tokenizer, layout=layout_named("x=({x1},{x2}) y={y}"))
    assert refused.value.sentence == (
        "in `x=(1.25,-0.75)` number `-0.75` (characters 8-13) starts inside piece `,-` (7-9)"
    )
    tokenized = tokenize_context(contexts, 0, tokenizer, layout=LAYOUTS["line"])
    pieces = [tokenizer.decode([i]) for i in tokenized.prefix[tokenized.parts["x"][0]]]
    assert pieces == [" ", "1", ".", "2", "5", " -", "0", ".", "7", "5"]
