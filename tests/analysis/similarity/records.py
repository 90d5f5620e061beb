"""Records of one query for the tests: random, and of known likeness."""

from typing import NamedTuple

import numpy as np

from analysis.similarity.records import Floats

LAYERS, HEADS, WIDTH, TOKENS, DIM, WORDS = 3, 2, 16, 7, 4, 30


class Made(NamedTuple):
    """What a record holds; see `analysis.similarity.records.Record`."""

    h: Floats
    scores: Floats
    earlier: Floats | None
    query: Floats
    inputs: Floats
    next_logp: Floats
    label_logp: Floats


def logp(rng: np.random.Generator, size: int = WORDS) -> Floats:
    logits = rng.standard_normal(size)
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def record(seed: int, *, width: int = WIDTH, earlier: int = 0) -> Made:
    """A random record; `earlier`: tokens before the query."""
    rng = np.random.default_rng(seed)
    return Made(
        h=rng.standard_normal((LAYERS, width)),
        scores=rng.standard_normal((LAYERS, HEADS, TOKENS)),
        earlier=rng.standard_normal((LAYERS, HEADS, earlier)) if earlier else None,
        query=rng.standard_normal((LAYERS, HEADS, DIM)),
        inputs=rng.standard_normal((LAYERS, WIDTH)),
        next_logp=logp(rng),
        label_logp=rng.standard_normal((2, 2)),
    )
