"""The walk over the numbers that a model could write: which were reached, with what mass."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.branching import branched, branches_at_once
from probes.continuation import Continuation
from prompts.number_grammar import END, NumberGrammar, State

Floats = NDArray[np.float64]


class Node(NamedTuple):
    """A part of a numeral of one answer, whose tokens have been run.

    `mass` is what the constrained model gives it, `free` what the unconstrained one does.
    """

    answer: int
    text: str
    state: State
    mass: float
    free: float


class Child(NamedTuple):
    """A part of a numeral that is not run yet: row `row` of its parent's batch, then `tokens`."""

    row: int
    tokens: tuple[int, ...]
    node: Node


@dataclass
class Found:
    """What is known of one answer's distribution."""

    masses: dict[float, float] = field(default_factory=dict)
    unexplored: float = 0.0
    outside: float = 0.0

    def add(self, number: float, mass: float) -> None:
        self.masses[number] = self.masses.get(number, 0.0) + mass


def walk(
    continuation: Continuation | None, logits: Tensor, grammar: NumberGrammar, *, mass: float
) -> list[Found]:
    """The distribution of each answer, `logits` (answer, word) being those after the prompts.

    Level by level, all answers together: of a level's open nodes the lightest are left out, as
    long as what an answer has left out stays within the level's share of 1 - `mass`.
    """
    found = [Found() for _ in logits]
    roots = [Node(answer, "", grammar.start, 1.0, 1.0) for answer in range(len(found))]
    open_: list[tuple[Continuation | None, list[Child]]] = []
    open_.append((continuation, list(_children(logits, roots, grammar, found))))
    levels = max(1, grammar.longest - 1)
    for level in range(1, grammar.longest + 1):
        allowance = (1 - mass) * min(1.0, level / levels)
        _leave_out([children for _, children in open_], found, allowance)
        open_ = [
            (after, list(children))
            for source, nodes in open_
            for after, children in _run(source, nodes, grammar, found)
        ]
        open_ = [(source, nodes) for source, nodes in open_ if nodes]
        if not open_:
            break
    return found


def _children(
    logits: Tensor, nodes: Sequence[Node], grammar: NumberGrammar, found: list[Found]
) -> Iterator[Child]:
    """The open children of nodes whose next logits (node, word) are known; numbers are counted."""
    totals = logits.logsumexp(-1).double()
    for state in dict.fromkeys(node.state for node in nodes):
        rows = [row for row, node in enumerate(nodes) if node.state == state]
        moves = grammar.moves[state]
        index = torch.tensor(rows, device=logits.device)
        allowed = logits[index][:, torch.as_tensor(moves.tokens, device=logits.device)].double()
        inside = (allowed.logsumexp(-1) - totals[index]).exp()
        shares = allowed.softmax(-1).cpu().numpy()
        free = (allowed - totals[index, None]).exp().cpu().numpy()
        for row, within, share, chance in zip(rows, inside.tolist(), shares, free, strict=True):
            node = nodes[row]
            found[node.answer].outside += node.free * max(0.0, 1.0 - within)
            if math.isnan(share[0]):
                found[node.answer].unexplored += node.mass
                continue
            chosen = np.bincount(moves.ending, share[moves.ends], len(moves.endings))
            for ending in np.flatnonzero(chosen):
                number = grammar.number(node.text + moves.endings[ending])
                found[node.answer].add(number, node.mass * chosen[ending])
            for i in moves.open[share[moves.open] > 0]:
                text, to = node.text + moves.heads[i], moves.states[i]
                child = Node(node.answer, text, to, node.mass * share[i], node.free * chance[i])
                yield from _opened(row, int(moves.tokens[i]), child, grammar, found)


def _opened(
    row: int, token: int, node: Node, grammar: NumberGrammar, found: list[Found]
) -> Iterator[Child]:
    """The child with the tokens that must follow it, unless its number is known by then."""
    forced, text, state = grammar.forced(node.state)
    if state == END:
        found[node.answer].add(grammar.number(node.text + text), node.mass)
    else:
        yield Child(row, (token, *forced), node)


def _leave_out(batches: list[list[Child]], found: list[Found], allowance: float) -> None:
    """Drop the lightest children of each answer; what they would have led to is unexplored."""
    every = sorted((c for batch in batches for c in batch), key=lambda child: child.node.mass)
    dropped = set()
    for child in every:
        of = found[child.node.answer]
        if of.unexplored + child.node.mass <= allowance:
            of.unexplored += child.node.mass
            dropped.add(id(child))
    for batch in batches:
        batch[:] = [child for child in batch if id(child) not in dropped]


def _run(
    source: Continuation | None, children: list[Child], grammar: NumberGrammar, found: list[Found]
) -> Iterator[tuple[Continuation, Iterator[Child]]]:
    """Run children of one batch, those of equal length together; their own open children."""
    if source is None:
        raise ValueError("a block that goes on is needed to read its answers")
    for length in sorted({len(child.tokens) for child in children}):
        alike = [child for child in children if len(child.tokens) == length]
        size = branches_at_once(source, length, len(grammar.texts))
        for first in range(0, len(alike), size):
            some = alike[first : first + size]
            rows = torch.tensor([child.row for child in some])
            tokens = torch.tensor([child.tokens for child in some])
            after, logits = branched(source, rows, tokens)
            ends = [_past_forced(c, of, grammar, found) for c, of in zip(some, logits, strict=True)]
            yield after, _children(logits[:, -1], ends, grammar, found)


def _past_forced(child: Child, logits: Tensor, grammar: NumberGrammar, found: list[Found]) -> Node:
    """The node after its forced tokens, which the constrained model is sure of."""
    node = child.node
    _, text, state = grammar.forced(node.state)
    free = node.free
    for step, token in enumerate(child.tokens[1:]):
        chance = float(logits[step, token] - logits[step].logsumexp(-1)) if free else -math.inf
        chance = math.exp(min(0.0, chance))
        found[node.answer].outside += free * (1 - chance)
        free *= chance
    return Node(node.answer, node.text + text, state, node.mass, free)
