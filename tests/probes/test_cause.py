"""Answers with heads changed: against whole prompts, and how the random heads are drawn."""

import functools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from probes.blocks import Block
from probes.cause import Caused, cause, mean_ablation, reads_exactly, reads_greedily
from probes.head_names import Head, HeadGrid
from probes.head_values import HeadValues, head_values
from probes.interventions import replace_heads
from probes.random_heads import random_sets
from probes.reading import read_context
from prompts.number_grammar import grammar_of_texts
from prompts.numerals import Codec
from prompts.refusal import Refusal
from prompts.vocabulary import Vocabulary
from tests.probes.test_answer_step import last_logits, whole_prompts
from tests.probes.tiny_models import hand_made_context, loaded, tiny_model

WORD, NAMED = 7, ("L0H1", "L1H0", "L1H3")
CONTEXTS = [hand_made_context(seed) for seed in (1, 2, 3)]
LAST = torch.tensor([28])


def read(block: Block) -> Any:
    """The logit of one word, in the place of an answer."""
    return block.logits[:, WORD].double().numpy()


@functools.cache
def run(name: str) -> Caused:
    rng = np.random.default_rng(0)
    return cause(loaded(tiny_model(name)), CONTEXTS, NAMED, read, rng=rng, draws=2)


def values_of(model: Any) -> list[HeadValues]:
    """What heads give at the answer position, from whole prompts, (query, 1, head, dim)."""
    return [head_values(model, whole_prompts(one), LAST) for one in CONTEXTS]


def mean_of(values: list[HeadValues]) -> HeadValues:
    layers = values[0].values
    means = {i: torch.cat([one.values[i] for one in values]).mean(0)[None] for i in layers}
    return HeadValues(means, LAST)


def slow(model: Any, c: int, heads: Any, to: Any) -> Tensor:
    """Whole prompts, one by one, with heads replaced; values (1 or query, 1, head, dim)."""
    found = []
    for q, ids in enumerate(whole_prompts(CONTEXTS[c])):
        value = to
        if to != "zero" and len(next(iter(to.values.values()))) > 1:
            value = to.of(q)
        with torch.no_grad(), replace_heads(model, heads, value, positions=LAST):
            found.append(model(input_ids=ids[None], use_cache=False).logits[0, -1, WORD])
    return torch.stack(found)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "gemma2", "llama-dynamic", "gpt-neo"])
def test_every_condition_is_that_of_whole_prompts(name: str) -> None:
    model, found = tiny_model(name), run(name)
    values = values_of(model)
    mean = mean_of(values)
    assert len(found.conditions) == 1 + 3 * 3
    for c in range(3):
        base = last_logits(model, CONTEXTS[c])[:, WORD]
        np.testing.assert_allclose(found.of("base")[c], base, atol=1e-4)
        to: dict[str, Any] = {"zero": "zero", "mean": mean, "patch": values[found.donors[c]]}
        for kind, value in to.items():
            expected = slow(model, c, NAMED, value)
            np.testing.assert_allclose(found.of(kind)[c], expected, atol=1e-4)
            assert np.abs(found.of(kind)[c] - base.numpy()).max() > 1e-2
            for draw, heads in enumerate(found.sets):
                expected = slow(model, c, heads, value)
                np.testing.assert_allclose(found.of_random(kind)[draw, c], expected, atol=1e-4)


def test_a_recurrent_family_is_changed_in_its_attention_layer() -> None:
    model = tiny_model("qwen3-next")
    rng = np.random.default_rng(0)
    found = cause(loaded(model), CONTEXTS, ["L1H2"], read, rng=rng, draws=1)
    mean = mean_of(values_of(model))
    np.testing.assert_allclose(found.of("mean")[1], slow(model, 1, ["L1H2"], mean), atol=1e-4)


class TokenCount:
    """Counts the tokens that a model is given."""

    def __init__(self, model: Any) -> None:
        self.tokens = 0
        self.handle = model.get_input_embeddings().register_forward_pre_hook(self.add)

    def add(self, _: Any, inputs: Any) -> None:
        self.tokens += inputs[0].numel()


def test_no_prompt_runs_twice_unless_memory_is_short() -> None:
    """A context is 24 + 3 x 4 tokens, then 3 a condition; 1 + 3 x (1 + 2) conditions."""
    tokens, answers = [], []
    for hold_bytes in (1 << 30, 0):
        model = tiny_model("llama")
        count = TokenCount(model)
        rng = np.random.default_rng(0)
        found = cause(loaded(model), CONTEXTS, NAMED, read, rng=rng, draws=2, hold_bytes=hold_bytes)
        tokens.append(count.tokens)
        answers.append(found.answers)
    assert tokens == [3 * (36 + 3 * 10), 3 * (2 * 36 + 3 * 10)]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)


@pytest.mark.parametrize("name", ["llama", "llama-dynamic"])
def test_answers_are_read_under_the_change(name: str) -> None:
    """Greedy texts of whole prompts, all of them run anew for each token."""
    model = tiny_model(name)
    texts: list[str] = []

    def parse(text: str) -> float | None:
        texts.append(text)
        return None if len(texts) == 2 else 1.0

    own = loaded(model)
    found = cause(
        own, CONTEXTS[:2], NAMED, reads_greedily(own, parse, tokens=3), rng=_rng(), draws=0,
        kinds=["zero"],
    )  # fmt: skip
    assert np.isnan(found.answers).sum() == 1
    ids = whole_prompts(CONTEXTS[0])
    with replace_heads(model, NAMED, "zero", positions=LAST):
        for _ in range(3):
            with torch.no_grad():
                logits = model(input_ids=ids, use_cache=False).logits[:, -1]
            ids = torch.cat([ids, logits.argmax(-1)[:, None]], 1)
    whole = [own.tokenizer.decode(row) for row in ids[:, -3:].tolist()]
    # The base of two contexts of three queries comes first.
    assert all(text.startswith(answer) for answer, text in zip(texts[6:9], whole, strict=True))


@pytest.mark.parametrize("name", ["llama", "mistral", "llama-dynamic"])
def test_exact_readings_are_those_of_each_context_alone(name: str) -> None:
    """Token t of 20 to 30 is a digit or the line's end; read with the heads changed all along."""
    model = tiny_model(name)
    own = loaded(model)
    texts = tuple("0123456789\n"[t - 20] if 20 <= t <= 30 else f"w{t}" for t in range(64))
    codec = Codec("two", 2, 0, sign="none", padded=True, affine=True)
    grammar = grammar_of_texts(Vocabulary(texts, frozenset()), codec, after="\n", blank=False)
    read = reads_exactly(grammar, mass=1.0)
    found = cause(own, CONTEXTS, NAMED, read, rng=_rng(), draws=1, kinds=["zero", "patch"])
    for c, tokenized in enumerate(CONTEXTS):
        with replace_heads(model, NAMED, "zero", positions=LAST):
            alone = [one.mean for one in read_context(own, tokenized, grammar, mass=1.0)]
        np.testing.assert_allclose(found.of("zero")[c], alone, atol=1e-2)
        donor = values_of(model)[found.donors[c]]
        for q in range(3):
            single = replace(tokenized, suffixes=tokenized.suffixes[[q]])
            with replace_heads(model, NAMED, donor.of(q), positions=LAST):
                expected = read_context(own, single, grammar, mass=1.0)[0].mean
            np.testing.assert_allclose(found.of("patch")[c, q], expected, atol=1e-2)
    assert np.abs(found.of("zero") - found.of("base")).max() > 1


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_each_context_takes_the_values_of_another() -> None:
    donors = run("llama").donors
    assert sorted(donors) == [0, 1, 2]
    assert all(donors != np.arange(3))


def test_the_mean_is_at_hand_for_other_measures() -> None:
    model, found = tiny_model("llama"), run("llama")
    with mean_ablation(model, found, NAMED, position=28):
        logits = last_logits(model, CONTEXTS[2])
    np.testing.assert_allclose(logits[:, WORD], found.of("mean")[2], atol=1e-4)


def test_what_cannot_be_run_is_refused() -> None:
    own = loaded(tiny_model("llama"))
    ask = functools.partial(cause, own, heads=NAMED, read=read, rng=_rng())
    with pytest.raises(Refusal, match="at least 2 contexts to take a mean over, came 1"):
        ask(CONTEXTS[:1])
    with pytest.raises(Refusal, match="unknown ablation 'men'"):
        ask(CONTEXTS, kinds=["men"])
    unlike = hand_made_context(4)
    object.__setattr__(unlike, "suffixes", unlike.suffixes[:2])
    with pytest.raises(Refusal, match=r"as many queries in every context, came \[2, 3\]"):
        ask([*CONTEXTS, unlike])


GRID = HeadGrid((0, 1, 3), 5)
SOME = st.sets(st.sampled_from(GRID.all()), min_size=1, max_size=8)


@settings(deadline=None)
@given(named=SOME, draws=st.integers(1, 12), seed=st.integers(0, 9))
def test_random_heads_are_as_many_of_the_same_layers(
    named: set[Head], draws: int, seed: int
) -> None:
    found = random_sets(sorted(named), GRID, draws=draws, rng=np.random.default_rng(seed))
    asked = Counter(head.layer for head in named)
    possible = {layer: min(k, 5 - k) for layer, k in asked.items() if k < 5}
    assert len(set(found.sets)) == len(found.sets)
    for one in found.sets:
        assert not set(one) & named
        assert len(set(one)) == len(one)
        assert Counter(head.layer for head in one) == possible
    if not found.short:
        assert len(found.sets) == draws


def test_what_layers_lack_is_said() -> None:
    """One of five heads leaves four others; four of five leave one; five of five none."""
    ask = functools.partial(random_sets, grid=GRID, draws=9, rng=_rng())
    few = ask([Head(0, 2)])
    assert sorted(few.sets) == [(Head(0, i),) for i in (0, 1, 3, 4)]
    assert few.short == "4 different sets of other heads where 9 were asked"
    fewer = ask([Head(3, i) for i in range(4)])
    assert fewer.sets == ((Head(3, 4),),)
    assert fewer.short.startswith("layer 3 has 1 other heads for 4 named")
    none = ask(GRID.of_layer(1))
    assert none.sets == ()
    assert "no other heads to compare with" in none.short


def test_every_other_head_is_drawn_as_often() -> None:
    """40 heads: 39 others of one named, 2000 draws of one, about 51 each; 5 sd is 36."""
    grid = HeadGrid((0,), 40)
    counts: Counter[Head] = Counter()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        for one in random_sets([Head(0, 0)], grid, draws=10, rng=rng).sets:
            counts.update(one)
    assert len(counts) == 39
    assert max(abs(count - 2000 / 39) for count in counts.values()) < 36
