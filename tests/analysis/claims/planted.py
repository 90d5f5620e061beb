"""Planted runs of ICL and FT: how alike they are is known, each claim's arrays are drawn."""

import numpy as np
from numpy.typing import NDArray

from analysis.claims.beside_twins import BesideTwins
from analysis.claims.output_change import Variation
from analysis.claims.recovered_answers import Answers
from analysis.inference import Interval
from analysis.similarity.resampling import Resamples, paired

Draws = NDArray[np.float64]
ABOVE, AROUND = Interval(0.2, 0.1, 0.3), Interval(0.01, -0.02, 0.04)


def resamples(sets: int = 5, queries: int = 60, *, seed: int = 0, count: int = 400) -> Resamples:
    """Sets and queries drawn with replacement, fewer times than a run draws them."""
    rng = np.random.default_rng(seed)
    drawn = (rng.multinomial(n, np.full(n, 1 / n), size=count) for n in (sets, queries))
    return Resamples(*(one.astype(np.float64) for one in drawn))


def likeness(gain: float, noise: float, *, seed: int = 0) -> tuple[Draws, Draws]:
    """Matched and mismatched (set, query, layer): alike by .3, and by `gain` more if matched."""
    rng = np.random.default_rng(seed)
    both = rng.normal(0.3, 0.1, (5, 60, 1))
    matched, mismatched = (both + rng.normal(0, noise, (5, 60, 3)) for _ in range(2))
    return matched + gain, mismatched


def beside(
    gain: float, noise: float = 0.1, *, twin: Interval | None = ABOVE, seed: int = 0
) -> BesideTwins:
    """A measure with one twin, or none."""
    found = paired(*likeness(gain, noise, seed=seed), rng=resamples(seed=seed))
    return BesideTwins(found, {} if twin is None else {"shuffled twin, seed 0": twin})


def answers(
    shared: float, *, sets: int = 5, queries: int = 100, spread: float = 1.5, seed: int = 0
) -> Answers:
    """Each run is right with a probability by the item's difficulty, independently given it.

    shared: how much luck, by set and query, FT and ICL on D have in common beyond difficulty.
    """
    rng = np.random.default_rng(seed)
    shape = (sets, queries)
    hard = rng.normal(0, spread, queries)
    gold = np.tile(rng.integers(0, 2, queries), (sets, 1))
    margin = np.tile(-0.7 * hard + rng.normal(0, 1, queries), (sets, 1))
    luck = rng.normal(0, shared, shape) if shared else np.zeros(shape)
    ft, icl = (0.5 - hard + luck + rng.logistic(size=shape) > 0 for _ in range(2))
    other = 0.5 - hard + rng.logistic(size=shape) > 0
    return Answers(gold, margin, margin > 0, ft, icl, other)


def variation(place: float, *, noise: float = 0.02, seed: int = 0) -> Variation:
    """Total variation .4 of ZSL, .3 of FT on D', .1 of another order, and FT on D between."""
    rng = np.random.default_rng(seed)
    both = rng.normal(0, 0.02, (5, 60))
    means = (0.3 - 0.2 * place, 0.3, 0.1, 0.4)
    return Variation(*(np.clip(m + both + rng.normal(0, noise, (5, 60)), 0, 1) for m in means))
