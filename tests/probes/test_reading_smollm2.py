"""Readings of SmolLM2: against its greedy answers, and against whole prompts."""

import numpy as np
import pytest
import torch

from probes.models import load_model
from probes.reading import read_context
from probes.rows import context_rows
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.number_grammar import grammar_of_contexts
from prompts.numerals import codec_named
from prompts.tokens import tokenize_context


@pytest.mark.model
def test_readings_agree_with_greedy_answers_and_whole_prompts() -> None:
    """Greedy decoding takes the likeliest digit each time, so it mostly finds the mode; where it
    does not, the mode is at least as likely. One digit's chance from a forward over a prompt."""
    loaded, layout = load_model("smollm2-135m"), layout_named("line")
    design = Design(contexts=1, examples=12, queries=8, features=1)
    codec = codec_named("unsigned-decimal")
    drawn = draw_contexts(design, codec, rng=np.random.default_rng(1))
    grammar = grammar_of_contexts(drawn, loaded.tokenizer, layout=layout)
    tokenized = tokenize_context(drawn, 0, loaded.tokenizer, layout=layout)
    readings = read_context(loaded, tokenized, grammar, mass=0.9)
    answers = context_rows(loaded, tokenized, prefix_rows=False).answers
    same = 0
    for reading, answer in zip(readings, answers, strict=True):
        greedy = codec.parse_answer(answer)
        mode = reading.values[reading.probabilities.argmax()]
        same += greedy == mode
        assert reading.unexplored <= 0.1
        assert reading.outside < 0.2
        assert codec.low < reading.mean < codec.high
        assert reading.probabilities.max() >= reading.probabilities[reading.values == greedy]
    assert same >= 5
    ids = torch.as_tensor([*tokenized.prefix, *tokenized.suffixes[0]])[None]
    with torch.inference_mode():
        chances = loaded.model(ids, logits_to_keep=1).logits[0, 0].softmax(-1)
    word, chance = readings[0].likeliest[0]
    assert loaded.tokenizer.decode([int(chances.argmax())]) == word
    assert chance == pytest.approx(float(chances.max()), abs=1e-5)
