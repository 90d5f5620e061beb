"""Mean answers with edited numbers, against whole prompts that are rendered and run one by one."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

from probes import behavioural_row as module
from probes.behavioural_row import Asking, Means, behavioural_row, query_sensitivity
from probes.blocks import Block
from probes.joined_blocks import joined_blocks
from probes.reading import read_context
from prompts.contexts import Context, ContextSet, Floats
from prompts.layouts import layout_named
from prompts.number_grammar import NumberGrammar, grammar_of_contexts
from prompts.refusal import Refusal
from prompts.tokens import tokenize_context
from tests.probes.tiny_models import CONFIGS, build
from tests.prompts.small_contexts import contexts
from tests.prompts.small_tokenizers import single_digits

LINE = layout_named("line")
CODEC = "unsigned-integer(2,0)"
SIZE = 7.0
FAMILIES = ("llama", "gpt2", "mistral", "qwen3-next", "gpt-neo")
TOKENIZER = single_digits()


def given() -> ContextSet:
    """Two contexts of five examples and three queries, numbers of two digits."""
    return contexts(CODEC)


def loaded(name: str, **sizes: Any) -> Any:
    """The peaky model of that name over the tokenizer's vocabulary."""
    config = CONFIGS[name]()
    for size, value in {"vocab_size": len(TOKENIZER), **sizes}.items():
        setattr(config, size, value)
    return SimpleNamespace(model=build(config), tokenizer=TOKENIZER)


def grammar(of: ContextSet) -> NumberGrammar:
    return grammar_of_contexts(of, TOKENIZER, layout=LINE)


@torch.inference_mode()
def whole_answers(model: Any, of: ContextSet, index: int) -> Floats:
    """Mean answers (query,) over both digits, from one whole prompt a query and first digit."""
    tokens = tokenize_context(of, index, TOKENIZER, layout=LINE)
    digits = [TOKENIZER(str(digit), add_special_tokens=False).input_ids[0] for digit in range(10)]
    answers = []
    for suffix in tokens.suffixes:
        ids = torch.as_tensor(np.r_[tokens.prefix, suffix])
        tens = model(input_ids=ids[None], use_cache=False).logits[0, -1, digits].softmax(-1)
        followed = torch.stack([torch.cat([ids, torch.tensor([digit])]) for digit in digits])
        ones = model(input_ids=followed, use_cache=False).logits[:, -1, digits].softmax(-1)
        numbers = 10 * torch.arange(10.0)[:, None] + torch.arange(10.0)
        answers.append(float((tens[:, None] * ones * numbers).sum()))
    return np.array(answers)


def exactly(of: ContextSet, *, mass: float = 1) -> Asking:
    """Answers read until so much of their probability is explored."""
    return Asking(layout=LINE, grammar=grammar(of), mass=mass)


def edited(of: ContextSet, index: int, **numbers: Any) -> ContextSet:
    every = list(of.contexts)
    every[index] = replace(every[index], **numbers)
    return replace(of, contexts=tuple(every))


def moved_y(context: Context, example: int, by: float) -> Floats:
    """By hand: y_i + by, or the pair 0, 14 or 85, 99 where it would leave 0 to 99."""
    middle = min(max(context.y[example], SIZE), 99 - SIZE)
    return np.where(np.arange(len(context.y)) == example, middle + by, context.y)


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_those_of_whole_prompts(name: str) -> None:
    of, index = given(), 1
    model, reference = loaded(name), loaded(name).model
    found = behavioural_row(model, of, index, exactly(of), size=SIZE)
    assert_allclose(found.base, whole_answers(reference, of, index), atol=1e-4, rtol=1e-6)
    for example in range(5):
        for side, by in (("plus", SIZE), ("minus", -SIZE)):
            changed = edited(of, index, y=moved_y(of.contexts[index], example, by))
            whole = whole_answers(reference, changed, index)
            assert_allclose(getattr(found, side)[example], whole, atol=1e-4, rtol=1e-6)
    assert np.abs(found.rows).max() > 1e-3 or name == "mistral"


@pytest.mark.parametrize("name", FAMILIES)
def test_an_order_gives_the_answers_of_the_reordered_context(name: str) -> None:
    of, order = given(), np.array([3, 0, 4, 1, 2])
    context = of.contexts[0]
    model = loaded(name)
    turned = edited(of, 0, x=context.x[order], y=context.y[order])
    asking = exactly(of, mass=0.99)
    found = behavioural_row(model, of, 0, asking, size=SIZE, order=order)
    plain = behavioural_row(model, turned, 0, asking, size=SIZE)
    for place, example in enumerate(order):
        assert_allclose(found.plus[example], plain.plus[place], atol=1e-6)
        assert_allclose(found.minus[example], plain.minus[place], atol=1e-6)
        assert found.shifted[example] == plain.shifted[place]
    assert_allclose(found.base, plain.base, atol=1e-6)


def test_examples_outside_a_window_move_nothing() -> None:
    """One layer, a window of 40 tokens: a prompt is 5 examples of 16 and a query of 13 tokens
    (the blank before the answer is one), so it sees the last 27 shared tokens: of example 4 its
    x and y, of example 3 the last 11 tokens, y among them, and nothing of earlier y."""
    of = given()
    tokens = tokenize_context(of, 0, TOKENIZER, layout=LINE)
    model = loaded("mistral", num_hidden_layers=1, sliding_window=40, layer_types=None)
    length = len(tokens.prefix) + tokens.suffixes.shape[1]
    seen = tokens.parts["y"].max(1) > length - 1 - 40
    assert 0 < seen.sum() < 4
    found = behavioural_row(model, of, 0, Asking(layout=LINE, read=first_digit_read), size=SIZE)
    assert_array_equal(found.rows[:, ~seen], 0.0)
    assert (np.abs(found.rows[:, seen]) > 1e-6).all()


def first_digit_read(block: Block, logits: Tensor) -> Means:
    """The mean first digit: only the logits behind the prompt count."""
    digits = [TOKENIZER(str(digit), add_special_tokens=False).input_ids[0] for digit in range(10)]
    return Means((logits[:, digits].softmax(-1) @ torch.arange(10.0)).double().numpy())


def test_rows_by_hand() -> None:
    """Two examples, one query: (8 - 5) / 4 = 3/4 and (2 - 6) / 4 = -1."""
    found = module.Perturbed(
        np.array([[8.0], [2.0]]),
        np.array([[5.0], [6.0]]),
        np.array([5.5]),
        2.0,
        {},
        0.0,
        np.array([False, False]),
    )
    assert_allclose(found.rows, [[3 / 4, -1.0]])


@pytest.mark.parametrize("name", FAMILIES)
def test_sensitivity_is_the_difference_of_whole_prompts(name: str) -> None:
    of = given()
    context = of.contexts[0]
    model, reference = loaded(name), loaded(name).model
    found = query_sensitivity(model, of, 0, exactly(of), size=SIZE)
    assert found.slopes.shape == (3, 2)
    for feature in range(2):
        middle = np.clip(context.queries[:, feature], SIZE, 99 - SIZE)
        sides = []
        for by in (SIZE, -SIZE):
            queries = context.queries.copy()
            queries[:, feature] = middle + by
            sides.append(whole_answers(reference, edited(of, 0, queries=queries), 0))
        slopes = (sides[0] - sides[1]) / (2 * SIZE)
        assert_allclose(found.slopes[:, feature], slopes, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("held", [0, 1 << 29])
def test_reading_together_is_reading_one_by_one(
    name: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of all examples at once, or one block at a time, where recurrences stay alone."""
    of = given()
    sizes: list[int] = []

    def joined(blocks: Any) -> Any:
        for one in joined_blocks(blocks, held_bytes=held):
            sizes.append(len(one.block.logits))
            yield one

    monkeypatch.setattr(module, "joined_blocks", joined)
    found = behavioural_row(loaded(name), of, 0, exactly(of), size=SIZE)
    alone = held == 0 or name == "qwen3-next"
    assert sizes == ([3] * 11 if alone else [33])
    base = read_context(
        loaded(name), tokenize_context(of, 0, TOKENIZER, layout=LINE), grammar(of), mass=1
    )
    assert_allclose(found.base, [reading.mean for reading in base], atol=1e-4)


def test_unexplored_mass_and_seconds_are_said() -> None:
    of = given()
    found = behavioural_row(loaded("llama"), of, 0, exactly(of, mass=0.9), size=SIZE)
    assert 0 < found.unexplored <= 0.1 + 1e-9
    assert set(found.seconds) == {"forward", "reading"}
    assert min(found.seconds.values()) > 0
    context = of.contexts[0]
    assert_array_equal(found.shifted, (context.y < SIZE) | (context.y > 99 - SIZE))


def test_an_answer_is_read_one_way() -> None:
    with pytest.raises(Refusal, match="one of the two"):
        Asking(layout=LINE)
    with pytest.raises(Refusal, match="one of the two"):
        Asking(layout=LINE, grammar=grammar(given()), read=first_digit_read)
