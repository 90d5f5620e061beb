"""The behavioural row of SmolLM2, against whole prompts."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probes.behavioural_row import Asking, behavioural_row
from probes.models import load_model
from probes.reading import read_context
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.number_grammar import grammar_of_contexts
from prompts.numerals import codec_named
from prompts.tokens import tokenize_context

LINE = layout_named("line")


@pytest.mark.model
def test_moved_answers_are_those_of_the_moved_context() -> None:
    loaded = load_model("smollm2-135m")
    design = Design(contexts=1, examples=4, queries=1, features=1)
    of = draw_contexts(design, codec_named("unsigned-integer(2,0)"), rng=np.random.default_rng(0))
    grammar = grammar_of_contexts(of, loaded.tokenizer, layout=LINE)
    asking = Asking(layout=LINE, grammar=grammar, mass=1)
    found = behavioural_row(loaded, of, 0, asking, size=8)
    assert found.rows.shape == (1, 4)
    assert (np.abs(found.rows) > 1e-4).all()
    context = of.contexts[0]
    assert not found.shifted[2]
    y = context.y + 8 * (np.arange(4) == 2)
    moved = replace(of, contexts=(replace(context, y=y),))
    tokens = tokenize_context(moved, 0, loaded.tokenizer, layout=LINE)
    (whole,) = read_context(loaded, tokens, grammar, mass=1)
    assert_allclose(found.plus[2, 0], whole.mean, atol=1e-3)
