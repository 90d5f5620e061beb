"""Heads of the real SmolLM2: changed at the answer position, what they add, layer by layer."""

from typing import Any

import numpy as np
import pytest
import torch

from probes.answer_step import answer_step
from probes.cause import cause, reads_exactly
from probes.contribution import contributions, digit_direction
from probes.head_values import output_projections
from probes.interventions import replace_heads
from probes.layer_readout import layer_readout
from probes.models import load_model
from probes.reading import read_context
from prompts.contexts import draw_contexts
from prompts.design import Design
from prompts.layouts import layout_named
from prompts.number_grammar import grammar_of_contexts
from prompts.numerals import codec_named
from prompts.tokens import tokenize_all

pytestmark = pytest.mark.model

NAMED = ("L5H1", "L12H3", "L12H4")


@pytest.fixture(scope="module")
def study() -> Any:
    """The model, two contexts of six examples and two queries, and their grammar."""
    own = load_model("smollm2-135m")
    codec, layout = codec_named("unsigned-decimal"), layout_named("line")
    design = Design(contexts=2, examples=6, features=1, queries=2)
    contexts = draw_contexts(design, codec, rng=np.random.default_rng(0))
    tokens = tokenize_all(contexts, own.tokenizer, layout=layout)
    return own, tokens, grammar_of_contexts(contexts, own.tokenizer, layout=layout)


def test_answers_with_heads_at_zero_are_those_of_each_context_alone(study: Any) -> None:
    own, tokens, grammar = study
    read, rng = reads_exactly(grammar, mass=0.9), np.random.default_rng(0)
    found = cause(own, tokens, NAMED, read, rng=rng, draws=1, kinds=["zero"])
    position = len(tokens[1].prefix) + tokens[1].suffixes.shape[1] - 1
    with replace_heads(own, NAMED, "zero", positions=[position]):
        alone = [one.mean for one in read_context(own, tokens[1], grammar, mass=0.9)]
    np.testing.assert_allclose(found.of("zero")[1], alone, rtol=1e-2)
    plain = [one.mean for one in read_context(own, tokens[1], grammar, mass=0.9)]
    np.testing.assert_allclose(found.of("base")[1], plain, rtol=1e-2)
    assert np.isfinite(found.answers).all()


def test_heads_add_up_and_the_last_layer_says_what_the_model_says(study: Any) -> None:
    own, tokens, _ = study
    step = answer_step(own.model, tokens[0])
    direction = digit_direction(own, step)
    outputs = []
    for module in output_projections(own.model).values():
        module.register_forward_hook(lambda m, i, out: outputs.append(out[:, -1].double()))
    logits = step.run().logits
    added = torch.stack(outputs, 1).numpy() @ direction
    found = contributions(own, tokens[0], direction, step=step)
    size = np.abs(added).max()
    np.testing.assert_allclose(found.whole.sum(-1), added, atol=1e-5 * size)
    lens = layer_readout(own, tokens[0], step=step)
    likeliest = [own.tokenizer.decode([token]) for token in logits.argmax(-1).tolist()]
    assert lens.likeliest[:, -1].tolist() == likeliest
    assert (lens.digits[:, -1].sum(-1) > 0.9).all()
