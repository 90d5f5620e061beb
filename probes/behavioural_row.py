"""The behavioural row: how far the model's answer moves when one example's y is printed otherwise.

No head is looked at: a number in the text is edited, the model is run again, and its mean answer
is read. For a model that answers by a linear smoother this is the smoother's row, signs included.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from probes.blocks import Block
from probes.joined_blocks import joined_blocks
from probes.model_facts import sharing, the_module
from probes.perturbed_prompts import run_variants
from probes.reading import read_block
from prompts.contexts import ContextSet
from prompts.layouts import Layout
from prompts.number_grammar import NumberGrammar
from prompts.perturb import (
    Edge,
    answer_pairs,
    checked_order,
    in_order,
    query_pairs,
)
from prompts.perturbed_tokens import moved_prefixes, moved_query_tokens
from prompts.refusal import Refusal
from prompts.tokens import Bos, TokenizedContext, tokenize_context

Floats = NDArray[np.float64]


class Means(NamedTuple):
    """Mean answers (prompt,) in printed units, and the largest mass that was not explored."""

    answers: Floats
    unexplored: float = 0.0


Read = Callable[[Block, Tensor], Means]
"""Reads the mean answer of each prompt of a block, given the logits (prompt, word) behind it."""


class Perturbed(NamedTuple):
    """Mean answers of a context whose y are moved one by one, in printed units.

    `plus` and `minus` (N, M): the answer to each query where example i prints y_i + size and
    y_i - size; `base` (M,): where nothing is moved. `shifted` (N,): examples whose pair was moved
    inward to stay within the codec's range, still 2 size apart. `seconds`: "forward", all runs of
    prompts, and "reading". `unexplored`: the largest probability that a reading left out.
    """

    plus: Floats
    minus: Floats
    base: Floats
    size: float
    seconds: dict[str, float]
    unexplored: float
    shifted: NDArray[np.bool_]

    @property
    def rows(self) -> Floats:
        """(plus - minus) / (2 size), (M, N): each query's behavioural row, without a unit."""
        return np.asarray((self.plus - self.minus).T / (2 * self.size))


class Sensitivity(NamedTuple):
    """How far each answer moves per unit of each feature of its own query.

    `slopes` (M, P): printed units of y per printed unit of x. `shifted` (M, P): the pair was
    moved inward. `size`, `seconds` and `unexplored` as in `Perturbed`.
    """

    slopes: Floats
    size: float
    seconds: dict[str, float]
    unexplored: float
    shifted: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How numbers are printed to the model and its answers read.

    `grammar`: which tokens spell a number; answers are read until `mass` of their probability is
    explored. `read` reads them instead. `edge`: see `prompts.perturb.moved_pairs`. Refuses a
    grammar beside `read`, and neither of the two.
    """

    layout: Layout
    bos: Bos = "auto"
    grammar: NumberGrammar | None = None
    mass: float = 0.99
    read: Read | None = None
    edge: Edge = "shift"

    def __post_init__(self) -> None:
        if (self.grammar is None) == (self.read is None):
            raise Refusal(
                "needed a number grammar or a function that reads answers, one of the two"
            )

    @property
    def reader(self) -> Read:
        """What reads the answers."""
        if self.read is not None:
            return self.read
        assert self.grammar is not None
        return partial(_by_grammar, self.grammar, self.mass)


def behavioural_row(
    loaded: Any,
    contexts: ContextSet,
    index: int,
    asking: Asking,
    *,
    size: float,
    order: ArrayLike | None = None,
) -> Perturbed:
    """Mean answers of context `index` with each y moved up and down by `size` (printed units).

    The prompts of a pair are run from the moved number on, as far as the model's family allows.
    `order`: the order in which the examples are printed (example order[i] at place i); the answers
    are those of the examples as `contexts` has them. Refuses a size off the printed grid or too
    wide for the codec, and a numeral that changes tokens beside its own.
    """
    own, place = _ordered(contexts, index, order)
    tokens = tokenize_context(own, index, loaded.tokenizer, layout=asking.layout, bos=asking.bos)
    pairs = answer_pairs(own, index, size=size, edge=asking.edge)
    prefixes = moved_prefixes(
        own, index, loaded.tokenizer, layout=asking.layout, tokenized=tokens, pairs=pairs
    )
    means, seconds, unexplored = _answers(loaded, contexts, tokens, prefixes, asking)
    back = np.argsort(place)
    by_place = np.array(means[:-1]).reshape(len(place), 2, -1)
    return Perturbed(
        plus=by_place[back, 0],
        minus=by_place[back, 1],
        base=means[-1],
        size=pairs.size,
        seconds=seconds,
        unexplored=unexplored,
        shifted=pairs.shifted[back],
    )


def query_sensitivity(
    loaded: Any, contexts: ContextSet, index: int, asking: Asking, *, size: float
) -> Sensitivity:
    """Central differences of each mean answer by its query's features, moved by `size`.

    All moved queries share the context's prefix, which is run once. `size` is in printed units of
    x; refusals: see `behavioural_row`.
    """
    pairs = query_pairs(contexts, index, size=size, edge=asking.edge)
    tokens = moved_query_tokens(
        contexts, index, loaded.tokenizer, layout=asking.layout, bos=asking.bos, pairs=pairs
    )
    means, seconds, unexplored = _answers(loaded, contexts, tokens, [], asking)
    moved = means[-1].reshape(*pairs.plus.shape, 2)
    slopes = (moved[..., 0] - moved[..., 1]) / (2 * pairs.size)
    return Sensitivity(slopes, pairs.size, seconds, unexplored, pairs.shifted)


def _ordered(
    contexts: ContextSet, index: int, order: ArrayLike | None
) -> tuple[ContextSet, NDArray[np.int64]]:
    context = contexts.contexts[index]
    count = len(context.y)
    place = checked_order(np.arange(count) if order is None else order, count)
    every = list(contexts.contexts)
    every[index] = in_order(context, place)
    return replace(contexts, contexts=tuple(every)), place


def _answers(
    loaded: Any,
    contexts: ContextSet,
    tokens: TokenizedContext,
    changed: Iterable[NDArray[np.int64]],
    asking: Asking,
) -> tuple[list[Floats], dict[str, float], float]:
    """Run all prompts of a context, with each changed prefix and without; see `_read_all`."""
    model = the_module(loaded)
    runs = run_variants(
        model,
        torch.as_tensor(tokens.prefix),
        torch.as_tensor(tokens.suffixes),
        [torch.as_tensor(prefixes) for prefixes in changed],
        how=sharing(model, _longest(tokens, contexts)),
    )
    return _read_all(runs, asking.reader)


def _longest(tokens: TokenizedContext, contexts: ContextSet) -> int:
    """Tokens of a prompt with its answer: a numeral takes at most one a character, and an end."""
    numeral = len(contexts.codec.numeral(contexts.codec.low))
    return int(len(tokens.prefix) + tokens.suffixes.shape[1] + numeral + 2)


def _read_all(
    runs: Iterator[tuple[Block, ...]], read: Read
) -> tuple[list[Floats], dict[str, float], float]:
    """Mean answers of each block in order, seconds, and the largest unexplored mass."""
    began, reading, unexplored = time.perf_counter(), 0.0, 0.0
    means: list[Floats] = []
    for block, counts in joined_blocks(block for blocks in runs for block in blocks):
        started = time.perf_counter()
        found = read(block, block.logits)
        reading += time.perf_counter() - started
        answers = np.asarray(found.answers, dtype=np.float64)
        means += np.split(answers, np.cumsum(counts)[:-1])
        unexplored = max(unexplored, found.unexplored)
    forward = time.perf_counter() - began - reading
    return means, {"forward": forward, "reading": reading}, unexplored


def _by_grammar(grammar: NumberGrammar, mass: float, block: Block, logits: Tensor) -> Means:
    readings = read_block(block, logits, grammar, mass=mass)
    means = np.array([reading.mean for reading in readings])
    return Means(means, max(reading.unexplored for reading in readings))
