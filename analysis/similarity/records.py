"""What the measures are given of one query: its runs, and what fine-tuning saw on the way."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Record(Protocol):
    """One query in one run; layers first.

    Of the recorded position: `h` (layer, width), the attention output before the residual add;
    `scores` (layer, head, token), scaled q.k before softmax and mask over the query's own tokens;
    `earlier` (layer, head, token), the same over the tokens before the query, None without any;
    `query` (layer, head, dim), before rotation; `inputs` (layer, width), what the projections
    read. `next_logp` (word,): log-probabilities of the next token. `label_logp` (class, 2): of the
    whole label, summed and averaged over its tokens.
    """

    @property
    def h(self) -> Floats: ...
    @property
    def scores(self) -> Floats: ...
    @property
    def earlier(self) -> Floats | None: ...
    @property
    def query(self) -> Floats: ...
    @property
    def inputs(self) -> Floats: ...
    @property
    def next_logp(self) -> Floats: ...
    @property
    def label_logp(self) -> Floats: ...


class Runs(NamedTuple):
    """The runs that one comparison takes: with demonstrations, without, and fine-tuned on them."""

    icl: Record
    zsl: Record
    ft: Record


class Learning(NamedTuple):
    """Tokens of the demonstrations that were shown in the prompt and learnt, one by one.

    `queries` (layer, token, head, dim) before rotation, `inputs` (layer, token, width): as the
    weights before each step made them. `shown` (token,): each one's place among the tokens before
    the query. `demonstration` (token,), `ids` (token,): which it belongs to, and which word it is.
    """

    queries: Floats
    inputs: Floats
    shown: Integers
    demonstration: Integers
    ids: Integers
