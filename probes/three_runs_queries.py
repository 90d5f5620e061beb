"""Queries of a task run in batches of equal length, so that nothing is ever padded."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.finetune_result import FineTuned
from probes.model_facts import attention_layers
from probes.run_records import Arrays, RunRecord, arrays_of, as_array
from probes.three_runs_place import Place, logits_of, ready, seen_at_last

Tokens = NDArray[np.int64]
_Item = TypeVar("_Item")


class Prompts(Protocol):
    """What the runs need to know of a task's tokens."""

    @property
    def bos(self) -> int | None: ...
    @property
    def demonstrations(self) -> tuple[Tokens, ...]: ...
    @property
    def alone(self) -> tuple[Tokens, ...]: ...
    @property
    def queries(self) -> tuple[Tokens, ...]: ...
    @property
    def in_context(self) -> tuple[Tokens, ...]: ...
    @property
    def labels(self) -> tuple[tuple[Tokens, ...], ...]: ...


class Condition(NamedTuple):
    """What a run has beside its queries: tokens between <bos> and them, and other weights.

    `shift`: not 0 where position ids are moved up, <bos> and query together, to where they would
    be behind as many tokens and the query's separator.
    """

    before: Tokens
    tuned: FineTuned | None = None
    shift: int = 0


def weights_of(condition: Condition) -> AbstractContextManager[None]:
    """Inside the block the model has the condition's weights."""
    return nullcontext() if condition.tuned is None else condition.tuned.applied()


class QueryRunner(NamedTuple):
    """Runs queries of a task in batches of equal length, at most `block` at once.

    `position`: "answer" or "label0", the recorded token; `updates`: whether sums of v k' are kept.
    """

    model: Any
    prompts: Prompts
    position: str
    updates: bool
    block: int

    def place(self, condition: Condition) -> Place:
        """What stands before the queries under a condition, run once where all can share it."""
        bos = [] if self.prompts.bos is None else [self.prompts.bos]
        with weights_of(condition):
            return ready(
                self.model,
                np.r_[np.array(bos, dtype=np.int64), condition.before],
                skip=len(bos),
                shift=condition.shift,
                longest=self._longest(condition),
            )

    def _longest(self, condition: Condition) -> int:
        """The most tokens that are run of a query, any label included.

        Where position ids are shifted, how far they go from there: as far as behind other text.
        """
        behind = bool(len(condition.before) or condition.shift)
        queries = self.prompts.in_context if behind else self.prompts.queries
        return max(
            len(query) + max(len(label) for label in labels)
            for query, labels in zip(queries, self.prompts.labels, strict=True)
        )

    def query(self, place: Place, query: int) -> Tokens:
        """A query's tokens: by itself, or as it is cut behind other text."""
        prompts = self.prompts
        return (prompts.in_context if place.length > place.skip else prompts.queries)[query]

    def tokens(self, place: Place, query: int) -> Tokens:
        """What is run of a query; its last token is the recorded one."""
        own = self.query(place, query)
        return np.r_[own, self.prompts.labels[query][0]] if self.position == "label0" else own

    def own(self, query: int) -> int:
        """How many of a query's tokens are its own in every run, without a separator."""
        return min(len(self.prompts.queries[query]), len(self.prompts.in_context[query]))

    def behind(self, query: int) -> int:
        """How many more tokens a query has behind other text (its separator)."""
        return len(self.prompts.in_context[query]) - len(self.prompts.queries[query])

    def order(self) -> list[int]:
        """Queries in the order of their lengths, those of equal length as they came."""
        queries, labels = self.prompts.queries, self.prompts.labels
        return sorted(range(len(queries)), key=lambda q: (len(queries[q]), len(labels[q][0])))

    def run(self, place: Place, queries: Sequence[int]) -> Iterator[tuple[int, RunRecord]]:
        """The record of each of some queries behind a place, in no certain order."""
        sizes = [
            (len(self.query(place, q)), len(self.tokens(place, q)), self.own(q), self.behind(q))
            for q in queries
        ]
        for group in _groups(queries, sizes, self.block):
            yield from zip(group, self._group(place, group), strict=True)

    def _group(self, place: Place, group: Sequence[int]) -> list[RunRecord]:
        """Queries of equal length, as one batch."""
        began, first = time.perf_counter(), group[0]
        if place.shift:
            place = place._replace(shift=place.shift + self.behind(first))
        ids = _ids([self.tokens(place, query) for query in group])
        answer = torch.tensor([len(self.query(place, first)) - 1])
        own = self.own(first) + ids.shape[1] - len(self.query(place, first))
        seen, logits = seen_at_last(place, ids, answer, own=own)
        next_logp = logits[:, 0].log_softmax(-1)
        labels = self._label_logp(place, group, next_logp)
        arrays = arrays_of(seen, updates=self.updates)
        seconds = (time.perf_counter() - began) / len(group)
        layers = attention_layers(self.model)
        return [
            _record(layers, arrays, as_array(next_logp[i]), labels[i], seconds, i)
            for i in range(len(group))
        ]

    def _label_logp(
        self, place: Place, group: Sequence[int], next_logp: Tensor
    ) -> NDArray[np.floating]:
        """(query, class, 2). Labels of one token are read off, longer ones are run."""
        labels = [self.prompts.labels[query] for query in group]
        sums = np.array(
            [[float(next_logp[i, label[0]]) for label in of] for i, of in enumerate(labels)]
        )
        pairs = [
            (i, c) for i, of in enumerate(labels) for c, label in enumerate(of) if len(label) > 1
        ]
        for some in _groups(pairs, [len(labels[i][c]) for i, c in pairs], self.block):
            for pair, total in zip(some, self._long(place, group, some), strict=True):
                sums[pair] = total
        lengths = np.array([[len(label) for label in of] for of in labels])
        return np.stack([sums, sums / lengths], -1).astype(next_logp.cpu().numpy().dtype)

    def _long(
        self, place: Place, group: Sequence[int], pairs: Sequence[tuple[int, int]]
    ) -> list[float]:
        """Log-probabilities of labels of equal length behind queries of equal length."""
        queries = [self.query(place, group[i]) for i, _ in pairs]
        labels = _ids([self.prompts.labels[group[i]][c] for i, c in pairs])
        ids = torch.cat([_ids(queries), labels[:, :-1]], 1)
        rows = torch.arange(labels.shape[1]) + len(queries[0]) - 1
        logp = logits_of(place, ids, rows).log_softmax(-1)
        each = logp.gather(-1, labels.to(logp.device)[..., None])[..., 0]
        return [float(total) for total in each.sum(-1)]


def _record(
    layers: tuple[int, ...],
    arrays: Arrays,
    next_logp: NDArray[np.floating],
    labels: NDArray[np.floating],
    seconds: float,
    place: int,
) -> RunRecord:
    earlier, update = (
        None if part is None else part[place] for part in (arrays.earlier, arrays.update)
    )
    return RunRecord(
        layers=layers,
        h=arrays.h[place],
        scores=arrays.scores[place],
        earlier=earlier,
        query=arrays.query[place],
        inputs=arrays.inputs[place],
        next_logp=next_logp,
        label_logp=labels,
        update=update,
        seconds=seconds,
    )


def _groups(items: Sequence[_Item], sizes: Sequence[Any], most: int) -> Iterator[list[_Item]]:
    """Items of equal size together, at most so many at a time."""
    pairs = sorted(zip(sizes, range(len(items)), strict=True))
    for _, same in groupby(pairs, key=lambda pair: pair[0]):
        places = [place for _, place in same]
        for start in range(0, len(places), most):
            yield [items[place] for place in places[start : start + most]]


def joined(parts: Sequence[Tokens]) -> Tokens:
    """Token arrays one behind the other."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def _ids(tokens: Sequence[Tokens]) -> Tensor:
    return torch.as_tensor(np.stack(tokens), dtype=torch.long)
