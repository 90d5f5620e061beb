"""Simulated studies for the tests of the row test: rows of known mechanism with noise."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.centring import double_centred
from analysis.design import ContextArrays, Floats
from analysis.planted import HEADS, Scene
from analysis.row_test import Pairs, Replicate
from analysis.simulate import (
    SimulatedDesign,
    simulate_contexts,
    simulate_pairs,
    simulate_replicate,
)

BY_NAME = {head.name: head for head in HEADS}


class Planted(NamedTuple):
    """Everything that a row test takes."""

    scores: Floats
    contexts: ContextArrays
    replicate: Replicate
    pairs: Pairs


def rows_of(name: str, contexts: ContextArrays, seed: int) -> Floats:
    """The head's row without noise, its random numbers fixed by the seed."""
    scene = Scene(contexts, rng=np.random.default_rng(seed))
    return np.broadcast_to(BY_NAME[name].build(scene), scene.shape)


def planted(
    names: Sequence[str],
    *,
    noise: float = 1.0,
    design: SimulatedDesign | None = None,
    pairs: int = 32,
    seed: int = 0,
) -> Planted:
    """Rows of unit sd with noise, their replicates aligned, and their re-paired twins."""
    rng = np.random.default_rng(seed)
    setting = SimulatedDesign() if design is None else design
    contexts = simulate_contexts(setting, rng=rng)
    twin_design = setting._replace(examples=20)
    first, second = simulate_pairs(twin_design, pairs=pairs, rng=rng)
    again, order = simulate_replicate(contexts, setting, rng=rng)
    parts: list[list[Floats]] = [[], [], [], []]
    for place, name in enumerate(names):
        main = rows_of(name, contexts, place)
        size = np.sqrt((double_centred(main) ** 2).mean())
        aligned = np.empty_like(main)
        for c, replicated in enumerate(rows_of(name, again, place)):
            aligned[c][:, order[c]] = replicated
        rows = [main, aligned, *(rows_of(name, one, place)[..., :10] for one in (first, second))]
        for part, row in zip(parts, rows, strict=True):
            part.append(row / size + noise * rng.standard_normal(row.shape))
    scores, replicate, scores_a, scores_b = (np.stack(part, axis=2) for part in parts)
    return Planted(
        scores,
        contexts,
        Replicate(replicate, np.ones(len(scores), dtype=bool)),
        Pairs(scores_a, scores_b, first, second),
    )
