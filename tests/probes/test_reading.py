"""Exact readings: a model with a known table, brute force over token sequences, whole prompts."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.blocks import Ask, run_blocks
from probes.continuation import WholeContinuation
from probes.model_facts import forget_lengths
from probes.reading import Reading, read_block, read_context
from prompts.number_grammar import NumberGrammar, grammar_of_texts
from prompts.numerals import Codec
from prompts.refusal import Refusal
from prompts.vocabulary import Vocabulary
from tests.probes.tiny_models import hand_made_context, loaded, tiny_model

PLAIN = (*"0123456789", ".", "-", "+", " ", "\n", "the")
MERGED = (*PLAIN, "12", ".5", "25", "5\n", " 3", " -", "0.", "\n\n", "3\n", "x1", ".07\n\n")
CODECS = {
    codec.name: codec
    for codec in (
        Codec("fixed", 1, 2, sign="none", padded=True, affine=True),
        Codec("whole", 2, 0, sign="negative", padded=False, affine=False),
        Codec("signed", 1, 1, sign="always", padded=True, affine=False),
        Codec("loose", 2, 1, sign="negative", padded=False, affine=False),
    )
}


def grammar(
    texts: tuple[str, ...], codec: Codec, *, blank: bool = False, after: str = "\n"
) -> NumberGrammar:
    return grammar_of_texts(Vocabulary(texts, frozenset()), codec, after=after, blank=blank)


class Table:
    """A causal model whose next-token logits are a fixed function of the last two tokens."""

    training = False

    def __init__(self, words: int, *, scale: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(words, words, words, generator=generator) * scale
        self.config = SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace())

    def forward(self, input_ids: Tensor, use_cache: bool) -> Any:
        before = torch.cat([torch.zeros_like(input_ids[:, :1]), input_ids[:, :-1]], 1)
        return SimpleNamespace(logits=self.table[before, input_ids])

    def __call__(self, *, input_ids: Tensor, use_cache: bool) -> Any:
        return self.forward(input_ids, use_cache)

    def get_input_embeddings(self) -> Any:
        return SimpleNamespace(weight=self.table)


def read(model: Any, ids: Tensor, of: NumberGrammar, mass: float = 1.0) -> list[Reading]:
    logits = model(input_ids=ids, use_cache=False).logits[:, -1]
    return read_block(WholeContinuation(model, ids), logits, of, mass=mass)


Next = Callable[[list[int]], Tensor]


class Brute:
    """All token sequences that spell a numeral, one step of the model at a time, by strings.

    A numeral is one that the codec prints, or minus zero; a text may go on if it begins some
    numeral and the terminator, and has ended with the terminator's first character or where no
    longer numeral begins with it. (No tested vocabulary has dead ends.)
    """

    def __init__(self, of: NumberGrammar, next_logits: Next) -> None:
        self.of, self.next_logits = of, next_logits
        codec, step = of.codec, 10.0**-of.codec.decimals
        count = round((codec.high - codec.low) / step) + 1
        printed = {codec.text(codec.low + i * step) for i in range(count)}
        if codec.sign != "none":
            printed.add("-" + codec.numeral(0.0).lstrip("+"))
        self.numerals = {(" " if of.blank else "") + numeral for numeral in printed}
        self.begun = {n[:k] for n in self.numerals for k in range(len(n) + 1)}
        self.longer = {n[:k] for n in self.numerals for k in range(len(n))}
        self.masses: dict[float, float] = {}
        self.outside = 0.0
        self.step([], "", 1.0, 1.0)

    def ended(self, text: str) -> str | None:
        """The numeral that a text has ended, if it has."""
        for k in range(len(text), -1, -1):
            rest, numeral = text[k:], text[:k]
            done = rest[:1] == self.of.after[0] or (not rest and numeral not in self.longer)
            if numeral in self.numerals and done:
                return numeral
        return None

    def step(self, tokens: list[int], text: str, mass: float, free: float) -> None:
        logits = self.next_logits(tokens).double()
        follow = [text + word for word in self.of.texts]
        allowed = [t in self.begun or self.ended(t) is not None for t in follow]
        chances = logits.softmax(-1).tolist()
        total = sum(c for c, may in zip(chances, allowed, strict=True) if may)
        self.outside += free * (1 - total)
        for token, (longer, may) in enumerate(zip(follow, allowed, strict=True)):
            if not may:
                continue
            share, chance = mass * chances[token] / total, free * chances[token]
            numeral = self.ended(longer)
            if numeral is None:
                self.step([*tokens, token], longer, share, chance)
            else:
                number = float(numeral) + 0.0
                self.masses[number] = self.masses.get(number, 0.0) + share


def assert_same(reading: Reading, brute: Brute, tolerance: float = 1e-6) -> None:
    assert reading.values.tolist() == sorted(brute.masses)
    expected = [brute.masses[value] for value in reading.values]
    np.testing.assert_allclose(reading.probabilities, expected, atol=tolerance)
    assert reading.outside == pytest.approx(brute.outside, abs=tolerance)
    assert reading.unexplored == 0
    assert reading.probabilities.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("texts", [PLAIN, MERGED], ids=["plain", "merged"])
def test_all_ways_of_spelling_a_number_are_summed(
    texts: tuple[str, ...], codec: str, blank: bool
) -> None:
    """Against every token sequence of a table model, one at a time."""
    model = Table(len(texts), scale=2.0)
    of = grammar(texts, CODECS[codec], blank=blank)
    ids = torch.tensor([[3, 7]])

    def next_logits(tokens: list[int]) -> Tensor:
        logits: Tensor = model(input_ids=torch.tensor([[3, 7, *tokens]]), use_cache=False).logits
        return logits[0, -1]

    assert_same(read(model, ids, of)[0], Brute(of, next_logits))


FEW = ["the"] * 64
for _token, _text in enumerate(("3", "7", ".", "37", ".7", "\n", "7\n", " ", "-")):
    FEW[5 * _token + 4] = _text
KINDS = ["llama", "gpt2", "mistral", "gpt-neo", "qwen3-next", "llama-dynamic"]


def whole_prompts(model: Any, ids: list[int]) -> Next:
    """Next logits from one forward over the whole prompt."""

    @torch.inference_mode()
    def next_logits(tokens: list[int]) -> Tensor:
        forget_lengths(model)
        logits: Tensor = model(torch.tensor([ids + tokens]), use_cache=False).logits
        return logits[0, -1]

    return next_logits


@pytest.mark.parametrize("name", KINDS)
def test_readings_are_those_of_whole_prompts(name: str) -> None:
    """Packed, cached with a window, on copies of a cache, and without a cache; in blocks of two."""
    tokenized, of = hand_made_context(3), grammar(tuple(FEW), CODECS["fixed"])
    model = loaded(tiny_model(name))
    together = read_context(model, tokenized, of, mass=1.0)
    blocks = read_context(model, tokenized, of, mass=1.0, block=2)
    for m, suffix in enumerate(tokenized.suffixes):
        naive = whole_prompts(tiny_model(name), np.r_[tokenized.prefix, suffix].tolist())
        brute = Brute(of, naive)
        assert_same(together[m], brute, 1e-5)
        assert_same(blocks[m], brute, 1e-5)
        chances = naive([]).softmax(-1).topk(5).values.tolist()
        assert [chance for _, chance in together[m].likeliest] == pytest.approx(chances, abs=1e-5)


def test_an_open_width_and_a_blank_on_a_shared_cache() -> None:
    tokenized, of = hand_made_context(4), grammar(tuple(FEW), CODECS["whole"], blank=True)
    model = tiny_model("llama")
    reading = read_context(loaded(model), tokenized, of, mass=1.0)[0]
    ids = np.r_[tokenized.prefix, tokenized.suffixes[0]].tolist()
    assert_same(reading, Brute(of, whole_prompts(model, ids)), 1e-5)


class Fixed:
    """A model that gives the same words the same chances whatever came before."""

    training = False

    def __init__(self, chances: dict[int, float], words: int) -> None:
        self.logits = torch.full((words,), -torch.inf)
        for token, chance in chances.items():
            self.logits[token] = math.log(chance)
        self.config = SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace())
        self.lengths: list[tuple[int, ...]] = []

    def forward(self, input_ids: Tensor, use_cache: bool) -> Any:
        self.lengths.append(tuple(input_ids.shape))
        return SimpleNamespace(logits=self.logits.expand(*input_ids.shape, -1))

    def __call__(self, *, input_ids: Tensor, use_cache: bool) -> Any:
        return self.forward(input_ids, use_cache)

    def get_input_embeddings(self) -> Any:
        return SimpleNamespace(weight=self.logits)


ONE = torch.tensor([[3]])


def test_by_hand() -> None:
    """Of the digits 1 and 2 the second is likelier, 3/4; the point and "the" are as likely.

    Three free digits: 1/4 or 3/4 each. Outside: 1/2 before the first digit (point or "the"),
    then 3/4 of what is left before the point (one word of four in chance), and so on.
    """
    model = Fixed({1: 1 / 8, 2: 3 / 8, 10: 1 / 4, 15: 1 / 4}, len(PLAIN))
    reading = read(model, ONE, grammar(PLAIN, CODECS["fixed"]))[0]
    assert reading.values.tolist() == [1.11, 1.12, 1.21, 1.22, 2.11, 2.12, 2.21, 2.22]
    expected = [
        np.prod([1 / 4 if d == "1" else 3 / 4 for d in f"{v:.2f}" if d != "."])
        for v in reading.values
    ]
    np.testing.assert_allclose(reading.probabilities, expected, atol=1e-6)
    left = 1 / 2 + 1 / 2 * 3 / 4 + 1 / 8 * 1 / 2 + 1 / 16 * 1 / 2
    assert reading.outside == pytest.approx(left, abs=1e-6)
    assert reading.likeliest[0][0] == "2"
    assert reading.likeliest[0][1] == pytest.approx(3 / 8)
    assert len(reading.likeliest) == 5
    assert reading.mean == pytest.approx(1.75 + 0.175 + 0.0175)


def test_the_last_digit_is_not_run() -> None:
    """Two nodes of two tokens each (a digit and the point), then four of one."""
    model = Fixed({1: 0.25, 2: 0.25, 10: 0.5}, len(PLAIN))
    read(model, ONE, grammar(PLAIN, CODECS["fixed"]))
    assert model.lengths == [(1, 1), (2, 3), (4, 4)]


def test_a_model_that_never_emits_a_number() -> None:
    """It says "the", then "the" again."""
    model = Fixed({15: 1.0}, len(PLAIN))
    reading = read(model, ONE, grammar(PLAIN, CODECS["fixed"]))[0]
    assert len(reading.values) == len(reading.probabilities) == 0
    assert (reading.unexplored, reading.outside) == (1.0, 1.0)
    assert reading.likeliest[0] == ("the", 1.0)
    assert math.isnan(reading.mean)
    rare = read(
        Fixed({15: 1 - 1e-4, 3: 9e-5, 10: 1e-5}, len(PLAIN)), ONE, grammar(PLAIN, CODECS["fixed"])
    )[0]
    assert rare.values.tolist() == [3.33]
    assert rare.outside == pytest.approx(1, abs=2e-4)


def test_what_the_model_cannot_finish_is_unexplored() -> None:
    """A digit and a sign have half the chance each, and no token with a point ever comes."""
    model = Fixed({1: 0.5, 11: 0.5}, len(MERGED))
    reading = read(model, ONE, grammar(MERGED, CODECS["signed"]))[0]
    assert len(reading.values) == 0
    assert reading.unexplored == pytest.approx(1)


@pytest.mark.parametrize("mass", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_left_out_is_bounded(codec: str, mass: float) -> None:
    """Probabilities are lower bounds, and what is missing is what is reported."""
    model, of = Table(len(MERGED), scale=2.0), grammar(MERGED, CODECS[codec])
    ids = torch.tensor([[3, 7], [1, 2]])
    for part, whole in zip(read(model, ids, of, mass), read(model, ids, of), strict=True):
        assert 0 <= part.unexplored <= 1 - mass + 1e-12
        assert part.probabilities.sum() == pytest.approx(1 - part.unexplored, abs=1e-9)
        full = dict(zip(whole.values, whole.probabilities, strict=True))
        for value, probability in zip(part.values, part.probabilities, strict=True):
            assert probability <= full[value] + 1e-9
        assert part.outside <= whole.outside + 1e-9


def test_less_mass_is_less_work() -> None:
    rows = []
    for mass in (1.0, 0.9):
        model = Fixed({d: 0.1 + 0.01 * d for d in range(10)} | {10: 0.1}, len(PLAIN))
        read(model, ONE, grammar(PLAIN, CODECS["fixed"]), mass)
        rows.append(sum(count for count, _ in model.lengths))
    assert rows[0] == 1 + 10 + 100
    assert rows[1] < 0.92 * rows[0]


def test_a_block_stays_as_it_was() -> None:
    """Read twice, and continued afterwards, it gives the same."""
    model, tokenized, of = (
        tiny_model("llama"),
        hand_made_context(5),
        grammar(tuple(FEW), CODECS["fixed"]),
    )
    ask = Ask(
        torch.as_tensor(tokenized.prefix),
        torch.as_tensor(tokenized.suffixes),
        None,
        lambda rows: None,
    )
    (block,) = run_blocks(model, ask, how="packed")
    assert block.continuation is not None
    first, again = (read_block(block, block.logits, of) for _ in range(2))
    by_continuation = read_block(block.continuation, block.logits, of)
    for other in (again, by_continuation):
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a.probabilities, b.probabilities)
    token = torch.tensor([5, 6, 7])
    after = block.continuation.next_logits(token)
    ids = np.r_[tokenized.prefix, tokenized.suffixes[1], 6].tolist()
    torch.testing.assert_close(after[1], whole_prompts(model, ids)([]), atol=1e-4, rtol=1e-4)


def test_few_branches_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenized, of = hand_made_context(6), grammar(tuple(FEW), CODECS["fixed"])
    model = loaded(tiny_model("mistral"))
    together = read_context(model, tokenized, of, mass=1.0)
    monkeypatch.setattr("probes.branching._TOKENS_AT_ONCE", 3)
    apart = read_context(model, tokenized, of, mass=1.0)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_allclose(a.probabilities, b.probabilities, atol=1e-5)
        assert a.outside == pytest.approx(b.outside, abs=1e-5)


def test_refusals() -> None:
    of = grammar((*[""] * 64, *PLAIN), CODECS["fixed"])
    with pytest.raises(Refusal, match="go up to 74, but the model has 64 words"):
        read_context(loaded(tiny_model("llama")), hand_made_context(), of)
    of = grammar(PLAIN, CODECS["fixed"])
    for mass in (0.0, 1.5, math.nan):
        with pytest.raises(Refusal, match=f"above 0 and at most 1; came {mass!r}"):
            read(Fixed({1: 0.5, 10: 0.5}, len(PLAIN)), ONE, of, mass)
