"""Which heads cause the answer: the answers with some heads changed at the answer position."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.answer_step import ANSWER_TOKENS, AnswerStep, Prompts, answer_step
from probes.blocks import Block
from probes.head_names import Head, parse_heads
from probes.head_values import HeadValues, head_grid, output_projections
from probes.interventions import replace_heads
from probes.model_facts import the_module
from probes.random_heads import random_sets
from probes.reading import read_block
from probes.readout import greedy_answers
from prompts.number_grammar import NumberGrammar
from prompts.refusal import Refusal, unknown_name

Floats = NDArray[np.float64]
Read = Callable[[Block], Sequence[float] | Floats]
"""Reads one number for each query of a block, NaN where it cannot be read."""

KINDS = ("mean", "zero", "patch")
BASE, NAMED = "base", -1
HOLD_BYTES = 1 << 30


class Condition(NamedTuple):
    """What was done to the heads (`BASE`: nothing, or one of `KINDS`), and to which.

    `draw`: the number of the random set, from 0; `NAMED` for the named heads and for the base.
    """

    kind: str
    draw: int


class Caused(NamedTuple):
    """The answers with heads changed at the answer position, and what was changed.

    `answers` float64 (condition, context, query), NaN where an answer could not be read;
    `conditions` names the first axis: the base, then of each kind the named heads and every
    random set. `sets`, `short`: see `random_sets`. `donors` (context,): the context whose values
    each one takes in "patch". `means`: by layer, each head's mean over contexts and queries at
    the answer position (head, dim), for the layers of the named heads. `seconds`: time of the
    forwards and of the reading.
    """

    answers: Floats
    conditions: tuple[Condition, ...]
    named: tuple[Head, ...]
    sets: tuple[tuple[Head, ...], ...]
    short: str
    donors: NDArray[np.int64]
    means: Mapping[int, Tensor]
    seconds: Mapping[str, float]

    def of(self, kind: str, draw: int = NAMED) -> Floats:
        """The answers (context, query) under one condition."""
        found: Floats = self.answers[self.conditions.index(Condition(kind, draw))]
        return found

    def of_random(self, kind: str) -> Floats:
        """The answers (set, context, query) with each random set changed."""
        places = [i for i, c in enumerate(self.conditions) if c.kind == kind and c.draw != NAMED]
        return self.answers[places]


def cause(
    loaded: Any,
    contexts: Sequence[Prompts],
    heads: Any,
    read: Read,
    *,
    rng: np.random.Generator,
    draws: int = 19,
    kinds: Sequence[str] = KINDS,
    hold_bytes: int = HOLD_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> Caused:
    """The answers of every context with the named heads changed, and with random heads changed.

    Heads are changed at the last token of each prompt only, so tokens of the answer after its
    first see the change through that token alone. "mean": each head's mean over all contexts and
    queries there; "zero"; "patch": the values of another context, query by query. `heads`: names
    as in `parse_heads`. `draws` random sets have as many heads of each layer as the named ones,
    and none of those (see `random_sets`). `read`: what reads the answers (`reads_exactly`,
    `reads_greedily`).
    Each prompt runs once, and once more where the caches of all contexts take over `hold_bytes`;
    a condition then costs one token a query, and its reading. Refuses fewer than two contexts and
    unlike counts of queries. `progress` is told contexts done and to do, over both passes.
    """
    _check(contexts, kinds)
    runs, count = _Runs(the_module(loaded), contexts, read, hold_bytes), len(contexts)
    grid = head_grid(loaded)
    named = parse_heads(heads, grid)
    drawn, donors = random_sets(named, grid, draws=draws, rng=rng), _donors(count, rng)
    told = progress or (lambda done, total: None)
    base, values = _base(runs, {head.layer for head in named}, told)
    means = {layer: value.mean((0, 1)) for layer, value in values.items()}
    todo = [Condition(kind, d) for kind in kinds for d in range(NAMED, len(drawn.sets))]
    answers = np.full((1 + len(todo), *base.shape), np.nan)
    answers[0] = base
    for c in range(count):
        step = runs.step(c)
        to = {
            "mean": {layer: value[None, None] for layer, value in means.items()},
            "patch": {layer: value[donors[c]][:, None] for layer, value in values.items()},
        }
        for i, (kind, d) in enumerate(todo, 1):
            chosen = named if d == NAMED else drawn.sets[d]
            answers[i, c] = runs.changed(step, chosen, to.get(kind))
        told(count + c + 1, 2 * count)
    conditions = (Condition(BASE, NAMED), *todo)
    seconds = runs.clock.seconds
    return Caused(answers, conditions, named, drawn.sets, drawn.short, donors, means, seconds)


def _base(
    runs: "_Runs", layers: set[int], told: Callable[[int, int], None]
) -> tuple[Floats, dict[int, Tensor]]:
    """Answers (context, query) of the unchanged model, values (context, query, head, dim)."""
    answers, values = [], []
    for c in range(len(runs.contexts)):
        answer, value = runs.base(c, layers)
        answers.append(answer)
        values.append(value)
        told(c + 1, 2 * len(runs.contexts))
    return np.stack(answers), {i: torch.stack([value[i] for value in values]) for i in layers}


def reads_greedily(
    loaded: Any, parse: Callable[[str], float | None], *, tokens: int = ANSWER_TOKENS
) -> Read:
    """Reads greedy answers of at most `tokens` tokens by `parse` (`Codec.parse_answer`)."""

    def read(block: Block) -> Floats:
        assert block.continuation is not None
        texts = greedy_answers(block.continuation, block.logits, loaded.tokenizer, tokens=tokens)
        found = [parse(text) for text in texts]
        return np.array([np.nan if one is None else one for one in found], dtype=np.float64)

    return read


def reads_exactly(grammar: NumberGrammar, *, mass: float = 0.99) -> Read:
    """Reads the mean answers of the exact distributions, explored up to `mass` (`read_block`)."""

    def read(block: Block) -> Floats:
        readings = read_block(block, block.logits, grammar, mass=mass)
        return np.array([reading.mean for reading in readings], dtype=np.float64)

    return read


@contextmanager
def mean_ablation(loaded: Any, caused: Caused, heads: Any, *, position: int) -> Iterator[None]:
    """Inside the block these heads give, at one position, their mean of `cause`.

    For measures that run their own prompts, such as the behavioural row. `heads` lie in layers of
    the named heads; `position` is counted from the prompt's first token.
    """
    means = {layer: value[None, None] for layer, value in caused.means.items()}
    with replace_heads(loaded, heads, HeadValues(means, torch.tensor([position]))):
        yield


@dataclass
class _Clock:
    """Time of forwards, and of reading the answers."""

    seconds: dict[str, float] = field(default_factory=lambda: {"forward": 0.0, "reading": 0.0})

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[what] += time.perf_counter() - began


@dataclass
class _Runs:
    """What all runs of a study share; `steps` are those that memory holds."""

    module: Any
    contexts: Sequence[Prompts]
    read: Read
    hold_bytes: int
    clock: _Clock = field(default_factory=_Clock)
    steps: dict[int, AnswerStep] = field(default_factory=dict)
    held: int = 0

    def step(self, c: int) -> AnswerStep:
        """The step of a context, made anew where it is not held."""
        if c in self.steps:
            return self.steps.pop(c)
        with self.clock.of("forward"):
            return answer_step(self.module, self.contexts[c])

    def base(self, c: int, layers: set[int]) -> tuple[Floats, dict[int, Tensor]]:
        """The answers (query,) of the unchanged model, and what heads give (query, head, dim)."""
        step, found = self.step(c), {layer: list[Tensor]() for layer in layers}
        parts = []
        for one in step.apart():
            with self.clock.of("forward"), _noting(self.module, found):
                block = one.run()
            parts.append(self._read(block))
        if self.held + step.held_bytes <= self.hold_bytes:
            self.held += step.held_bytes
            self.steps[c] = step
        return np.concatenate(parts), {layer: torch.cat(each) for layer, each in found.items()}

    def changed(
        self, step: AnswerStep, heads: tuple[Head, ...], values: Mapping[int, Tensor] | None
    ) -> Floats:
        """The answers (query,) with heads at values (1 or query, 1, head, dim), None for zero.

        The change holds while answers are read: a family that shares nothing runs prompts again.
        """
        position, parts = torch.tensor([step.position]), []
        for one in step.apart():
            to: Any = "zero"
            if values is not None:
                here = slice(one.first, one.first + len(one.last))
                own = {i: value if len(value) == 1 else value[here] for i, value in values.items()}
                to = HeadValues(own, position)
            with replace_heads(self.module, heads, to, positions=position):
                with self.clock.of("forward"):
                    block = one.run()
                parts.append(self._read(block))
        return np.concatenate(parts)

    def _read(self, block: Block) -> Floats:
        with self.clock.of("reading"):
            return np.asarray(self.read(block), dtype=np.float64)


@contextmanager
def _noting(module: Any, found: dict[int, list[Tensor]]) -> Iterator[None]:
    """Adds to `found` what each head gives at the last token, (query, head, dim), by layer."""
    heads = head_grid(module).heads

    def reader(layer: int) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def keep(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            last = inputs[0][:, -1].unflatten(-1, (heads, -1))
            found[layer].append(last.detach().float().cpu())

        return keep

    projections = output_projections(module)
    with ExitStack() as hooks:
        for layer in found:
            hook = projections[layer].register_forward_pre_hook(reader(layer))
            hooks.callback(hook.remove)
        yield


def _donors(contexts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Another context for each, every one taken once."""
    order = rng.permutation(contexts)
    donors = np.empty(contexts, dtype=np.int64)
    donors[order] = np.roll(order, 1)
    return donors


def _check(contexts: Sequence[Prompts], kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise unknown_name("ablation", kind, KINDS)
    if len(contexts) < 2:
        raise Refusal(f"needed at least 2 contexts to take a mean over, came {len(contexts)}")
    counts = sorted({len(one.suffixes) for one in contexts})
    if len(counts) > 1:
        raise Refusal(f"needed as many queries in every context, came {counts!r}")
