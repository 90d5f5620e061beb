"""A tokenizer of another model and a wrong beginning are told from a model without a language."""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.families import FAMILIES, tiny_config
from probes.model_check import PLAIN_ENGLISH
from probes.tokenizer_gate import tokenizer_gate
from prompts.pieces import cut
from prompts.refusal import Refusal
from tests.probes.tiny_models import build
from tests.prompts.small_tokenizers import single_digits, three_digits

WORDS = 300
BEGINNING = 280


class Pairs(nn.Module):
    """Knows one sentence by its pairs of tokens, behind `begins` (None: anything) alone.

    A token that the sentence has behind the last one gets half of the probability (shared, where
    the sentence has several); what is left is spread evenly over all words. Elsewhere all is even.
    """

    def __init__(self, tokenizer: Any, begins: int | None, words: int = WORDS) -> None:
        super().__init__()
        self.embedding, self.begins = nn.Embedding(words, 1), begins
        ids = cut(tokenizer, [PLAIN_ENGLISH])[0].ids
        seen = torch.zeros(words, words)
        for a, b in pairwise(ids):
            seen[a, b] = 1
        known = seen / seen.sum(1, keepdim=True).clamp(min=1)
        self.probability = 0.5 * known + torch.where(seen.any(1), 0.5, 1.0)[:, None] / words
        text = SimpleNamespace(vocab_size=words, bos_token_id=BEGINNING, eos_token_id=[281])
        self.config = SimpleNamespace(get_text_config=lambda: text, name_or_path="pairs")

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, input_ids: Tensor, use_cache: bool) -> Any:
        assert not use_cache
        logits = self.probability.log()[input_ids]
        if self.begins is not None and int(input_ids[0, 0]) != self.begins:
            logits = torch.zeros_like(logits)
        return SimpleNamespace(logits=logits)


def with_bos(tokenizer: Any, bos: int | None) -> Any:
    """The same tokenizer under another BOS attribute."""

    class Named:
        bos_token_id = bos

        def __call__(self, *given: Any, **named: Any) -> Any:
            return tokenizer(*given, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    return Named()


def gate(model: Any, tokenizer: Any, bos: int | None = None) -> Any:
    return tokenizer_gate(SimpleNamespace(model=model, tokenizer=tokenizer), bos=bos)


def by_hand(ids: list[int], words: int) -> float:
    """Of each pair: half, shared with what else follows the same token, and half over all words."""
    followers: dict[int, set[int]] = {}
    for a, b in pairwise(ids):
        followers.setdefault(a, set()).add(b)
    each = [0.5 / len(followers[a]) + 0.5 / words for a in ids[:-1]]
    return -sum(map(math.log, each)) / len(each)


def test_a_model_and_its_own_tokenizer() -> None:
    tokenizer = with_bos(single_digits(), BEGINNING)
    found = gate(Pairs(tokenizer, None), tokenizer)
    ids = cut(tokenizer, [PLAIN_ENGLISH])[0].ids.tolist()
    assert found.nats == pytest.approx(by_hand(ids, WORDS), rel=1e-5)
    assert found.chance_nats == math.log(WORDS)
    assert found.shuffled_nats > found.nats + 1
    assert found.knows_text
    assert found.notes == ()
    assert (found.words, found.embeddings, found.begins_with) == (len(single_digits()), WORDS, None)


def test_ids_beyond_the_embedding() -> None:
    """1,300 words and more for 300 embeddings."""
    tokenizer = three_digits()
    with pytest.raises(Refusal, match=r"ids lie below 300, .* came words up to the id 1\d\d\d"):
        gate(Pairs(single_digits(), None), tokenizer)


def test_an_added_token_without_an_embedding_is_noted() -> None:
    own = single_digits()
    tokenizer = with_bos(single_digits(), None)
    own.add_tokens(["<pad>"])
    model = Pairs(tokenizer, None, words=len(single_digits()))
    (note,) = gate(model, with_bos(own, None)).notes
    assert note.startswith(f"added tokens up to the id {len(single_digits())} have no embedding")


def test_many_embeddings_without_a_token_are_noted() -> None:
    tokenizer = with_bos(single_digits(), None)
    (note,) = gate(Pairs(tokenizer, None, words=2000), tokenizer).notes
    assert note.startswith(f"{2000 - len(single_digits())} of 2000 embeddings belong to no token")


def test_a_configuration_with_more_words_than_the_model_is_noted() -> None:
    tokenizer = with_bos(single_digits(), None)
    model = Pairs(tokenizer, None)
    model.config.get_text_config().vocab_size = 400
    assert gate(model, tokenizer).notes == (
        "the configuration tells 400 words, the model has 300 embeddings",
    )


def test_words_in_another_order_are_noted() -> None:
    """Every id is one of the model's, and none means to it what it means to the tokenizer."""
    tokenizer = single_digits()
    order = np.random.default_rng(0).permutation(260)

    def permuted(*given: Any, **named: Any) -> Any:
        encoded = dict(tokenizer(*given, **named))
        rows = encoded["input_ids"]
        many = bool(rows) and isinstance(rows[0], list)
        encoded["input_ids"] = [order[row].tolist() for row in (rows if many else [rows])]
        encoded["input_ids"] = encoded["input_ids"] if many else encoded["input_ids"][0]
        return encoded

    class Permuted:
        bos_token_id = None
        all_special_ids = ()
        get_vocab, get_added_vocab = tokenizer.get_vocab, tokenizer.get_added_vocab
        __call__ = staticmethod(permuted)

    found = gate(Pairs(with_bos(tokenizer, None), None), Permuted())
    assert not found.knows_text
    (note,) = found.notes
    assert "it is untrained, or the tokenizer is another model's" in note


@pytest.mark.parametrize(
    ("begins", "bos", "said"),
    [
        (BEGINNING, None, r"without a BOS token, by 1\.\d behind the token 280 \(try --bos always"),
        (BEGINNING, 262, r"behind the token 262, by 1\.\d behind the token 280"),
    ],
)
def test_prompts_that_begin_otherwise_than_the_model_knows(
    begins: int, bos: int | None, said: str
) -> None:
    """The model knows its sentence behind the token 280 only, as its configuration says."""
    tokenizer = single_digits()
    with pytest.raises(Refusal, match=said):
        gate(Pairs(tokenizer, begins), tokenizer, bos)
    assert gate(Pairs(tokenizer, begins), tokenizer, begins).knows_text


def test_a_token_that_the_model_never_sees_first() -> None:
    """Its text starts with a letter's token: anything before it is none of its own."""
    tokenizer = single_digits(lead="<s>")
    first = int(cut(tokenizer, [PLAIN_ENGLISH])[0].ids[0])
    lead = tokenizer.bos_token_id
    model = Pairs(tokenizer, first)
    with pytest.raises(Refusal, match=rf"behind the token {lead}, by .* without .*--bos never"):
        gate(model, tokenizer, lead)


def test_bos_tokens_that_differ_are_noted() -> None:
    """EOS as BOS is what many families have; an id that no configuration knows is not."""
    tokenizer = single_digits()
    model = Pairs(tokenizer, None)
    assert gate(model, with_bos(tokenizer, 281)).notes == ()
    (note,) = gate(model, with_bos(tokenizer, 262)).notes
    assert note == "the tokenizer's BOS token is 262, the configuration's 280"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_random_models_are_never_refused(spread: float, seed: int) -> None:
    """Near uniform or peaky: whatever their prompts begin with."""
    family = FAMILIES["llama"]
    tiny = {**family.tiny, "vocab_size": WORDS, "max_position_embeddings": 128}
    model = build(tiny_config(family._replace(tiny=tiny)))
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data = torch.randn(parameter.shape, generator=generator) * spread
    for bos in (None, 1, 262):
        found = gate(model, with_bos(single_digits(), None), bos)
        assert not found.knows_text
        (note,) = found.notes
        assert "untrained" in note


def test_logits_that_are_not_numbers() -> None:
    tokenizer = single_digits()
    model = Pairs(tokenizer, None)
    model.probability[:] = torch.nan
    with pytest.raises(Refusal, match="not finite"):
        gate(model, tokenizer)
