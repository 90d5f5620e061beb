"""The exact distribution of the number that a model would answer."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.blocks import Ask, Block, run_blocks
from probes.continuation import Continuation
from probes.digit_tree import Found, walk
from probes.model_facts import sharing, the_module
from probes.rows import Tokens
from probes.scores import LayerRows
from prompts.number_grammar import NumberGrammar
from prompts.refusal import Refusal

LIKELIEST = 5


class Reading(NamedTuple):
    """The distribution of one answer over the numbers that its codec can print.

    `values` (K,): printed numbers, ascending; none where the model gives no number any chance.
    `probabilities` (K,): of the model held to the grammar, whose impossible tokens are masked at
    every step, so that each step is renormalised; all token sequences that spell a number are
    summed. They sum to 1 - `unexplored`, the mass of branches that were not followed, and are
    lower bounds if that is above 0.
    `outside`: the probability that the model, not held to anything, leaves the grammar before the
    number is known, as far as its tree was explored. What follows the last digit of a number
    whose end is forced by its width is not asked.
    `likeliest`: the five likeliest first tokens and their probabilities, held to nothing.
    """

    values: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    unexplored: float
    outside: float
    likeliest: tuple[tuple[str, float], ...]

    @property
    def mean(self) -> float:
        """The mean answer, of the explored mass; NaN where there is none."""
        total = self.probabilities.sum()
        return float(self.values @ self.probabilities / total) if total > 0 else np.nan


def read_block(
    block: Block | Continuation | None,
    logits: Tensor,
    grammar: NumberGrammar,
    *,
    mass: float = 0.999,
) -> list[Reading]:
    """The distribution of each answer of a block that was just run (it stays as it was).

    `logits` (answer, word) are those after the prompts. At least `mass` of each distribution is
    explored. Refuses a grammar of another tokenizer's tokens.
    """
    if not 0 < mass <= 1:
        raise Refusal(f"the mass to explore must be above 0 and at most 1; came {mass!r}")
    words = logits.shape[-1]
    if grammar.highest_token >= words:
        raise Refusal(
            f"the tokens of the numbers go up to {grammar.highest_token}, but the model has "
            f"{words} words; a grammar of the model's own tokenizer is needed"
        )
    continuation = block.continuation if isinstance(block, Block) else block
    with torch.inference_mode():
        found = walk(continuation, logits, grammar, mass=mass)
        top = logits.softmax(-1).topk(min(LIKELIEST, words))
    chances, tokens = top.values.tolist(), top.indices.tolist()
    return [
        _reading(one, grammar, zip(ids, chance, strict=True))
        for one, ids, chance in zip(found, tokens, chances, strict=True)
    ]


def _reading(found: Found, grammar: NumberGrammar, likeliest: Any) -> Reading:
    values = sorted(found.masses)
    return Reading(
        values=np.array(values, np.float64),
        probabilities=np.array([found.masses[value] for value in values], np.float64),
        unexplored=float(found.unexplored),
        outside=float(found.outside),
        likeliest=tuple((_text(grammar, token), chance) for token, chance in likeliest),
    )


def _text(grammar: NumberGrammar, token: int) -> str:
    return grammar.texts[token] if token < len(grammar.texts) else ""


def read_context(
    loaded: Any,
    tokenized: Tokens,
    grammar: NumberGrammar,
    *,
    mass: float = 0.999,
    block: int = 0,
) -> list[Reading]:
    """The distribution of each query's answer, in order, from one pass over the shared prefix.

    `block`: queries run at once (0: all).
    """
    model = the_module(loaded)
    ask = Ask(
        prefix=torch.as_tensor(np.asarray(tokenized.prefix), dtype=torch.long),
        suffixes=torch.as_tensor(np.asarray(tokenized.suffixes), dtype=torch.long),
        positions=None,
        keep=_nothing,
    )
    length = len(ask.prefix) + ask.suffixes.shape[1] + longest_answer(grammar)
    readings: list[Reading] = []
    for part in run_blocks(model, ask, how=sharing(model, length), block=block):
        readings += read_block(part, part.logits, grammar, mass=mass)
    return readings


def _nothing(rows: LayerRows) -> None:
    """Nothing is kept of attention."""


def longest_answer(grammar: NumberGrammar) -> int:
    """The most tokens that an answer can take, its forced ones counted."""
    codec = grammar.codec
    return codec.integer_digits + codec.decimals + 3
