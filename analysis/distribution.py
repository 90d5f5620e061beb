"""Distributions over printed numbers: what they say, and how well they foretell the truth.

C contexts of M queries; each distribution holds at most K numbers. Where a part of a distribution
was left unexplored, everything but `log_score` is of the explored part, made to sum to 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.design import Floats

Integers = NDArray[np.int64]

# Numbers are printed with at most 15 digits; nearer ones are the same number.
_SAME = 1e-9


class Distributions(NamedTuple):
    """Distributions of C x M answers, ready to be stored.

    values: (C, M, K), ascending, NaN behind the last; probabilities: (C, M, K), 0 there, summing
    to 1 - unexplored (C, M).
    """

    values: Floats
    probabilities: Floats
    unexplored: Floats


def padded(
    values: Sequence[Sequence[Floats]],
    probabilities: Sequence[Sequence[Floats]],
    unexplored: Sequence[Sequence[float]],
) -> Distributions:
    """Ragged lists, one a context of one a query, as arrays; `ragged` is the way back."""
    counts = [[len(one) for one in row] for row in values]
    if [[len(one) for one in row] for row in probabilities] != counts:
        raise ValueError("each answer needs as many probabilities as values")
    if len({len(row) for row in counts}) > 1:
        lengths = [len(row) for row in counts]
        raise ValueError(f"each context needs equally many queries; came {lengths!r}")
    shape = (len(counts), len(counts[0]) if counts else 0)
    longest = max((count for row in counts for count in row), default=0)
    found = Distributions(
        np.full((*shape, longest), np.nan),
        np.zeros((*shape, longest)),
        np.array(unexplored, dtype=np.float64).reshape(shape),
    )
    for c, row in enumerate(counts):
        for m, count in enumerate(row):
            found.values[c, m, :count] = values[c][m]
            found.probabilities[c, m, :count] = probabilities[c][m]
    return found


def ragged(given: Distributions) -> tuple[list[list[Floats]], list[list[Floats]]]:
    """The values and the probabilities of each answer, without what fills them up."""
    known = ~np.isnan(given.values)
    values, probabilities = (
        [[one[of] for one, of in zip(row, mask, strict=True)] for row, mask in each]
        for each in (
            list(zip(given.values, known, strict=True)),
            list(zip(given.probabilities, known, strict=True)),
        )
    )
    return values, probabilities


def shares(given: Distributions) -> Floats:
    """Probabilities of the explored part, summing to 1; NaN where nothing was explored."""
    total = given.probabilities.sum(-1, keepdims=True)
    found = np.full_like(given.probabilities, np.nan)
    np.divide(given.probabilities, total, where=total > 0, out=found)
    return found


def mean(given: Distributions) -> Floats:
    """The mean answer (C, M), sum of value times probability over sum of probability."""
    total = given.probabilities.sum(-1)
    weighted = np.nan_to_num(given.values) * given.probabilities
    found = np.full(total.shape, np.nan)
    np.divide(weighted.sum(-1), total, where=total > 0, out=found)
    return found


def mode(given: Distributions) -> Floats:
    """The likeliest number (C, M), the smallest of equally likely ones."""
    return _picked(given, given.probabilities.argmax(-1)) if _any(given) else mean(given)


def quantile(given: Distributions, level: float) -> Floats:
    """The smallest number (C, M) up to which at least `level` of the mass lies, 0 < level < 1."""
    if not 0 < level < 1:
        raise ValueError(f"a quantile's level must be between 0 and 1; came {level!r}")
    if not _any(given):
        return mean(given)
    below = np.cumsum(shares(given), -1) < level - 1e-12
    last = np.maximum((given.probabilities > 0).cumsum(-1).argmax(-1), 0)
    return _picked(given, np.minimum(below.sum(-1), last))


def median(given: Distributions) -> Floats:
    """The quantile at one half, (C, M)."""
    return quantile(given, 0.5)


def _any(given: Distributions) -> bool:
    return bool(given.values.shape[-1])


def _picked(given: Distributions, place: Integers) -> Floats:
    values = np.take_along_axis(given.values, place[..., None], -1)[..., 0]
    return np.where(given.probabilities.sum(-1) > 0, values, np.nan)


class LogScore(NamedTuple):
    """Negative log probability of the printed truth in nats, (C, M).

    nats: NaN where the truth has no explored mass; where some mass is unexplored the true score
        can only be smaller, since probabilities are lower bounds.
    at_least: the bound that the unexplored mass leaves, -log(probability + unexplored);
        infinity where everything was explored and the truth was not among it.
    missing: how many truths have no explored mass.
    """

    nats: Floats
    at_least: Floats
    missing: int


def log_score(given: Distributions, truth: Floats) -> LogScore:
    """The logarithmic score (Gneiting & Raftery 2007, J. Am. Stat. Assoc. 102, section 4.1).

    truth: (C, M), as printed; NaN where it is not known, and then the score is NaN, not missing.
    """
    chance = probability(given, truth)
    with np.errstate(divide="ignore"):
        at_least = -np.log(np.minimum(1.0, chance + given.unexplored))
        nats = np.where(chance > 0, -np.log(chance), np.nan)
    return LogScore(nats, at_least, int((chance == 0).sum()))


def probability(given: Distributions, truth: Floats) -> Floats:
    """The explored probability (C, M) of the printed truth, 0 where it was not reached."""
    _check(given, truth)
    near = np.abs(given.values - truth[..., None]) <= _SAME * np.maximum(
        1.0, np.abs(truth[..., None])
    )
    return np.where(np.isnan(truth), np.nan, (given.probabilities * near).sum(-1))


def crps(given: Distributions, truth: Floats) -> Floats:
    """Continuous ranked probability score (C, M), in printed units, at least 0; exact.

    The integral of (F(x) - 1{x >= truth})^2 over x, which is E|X - truth| - E|X - X'| / 2
    (Gneiting & Raftery 2007, equations 20 and 21). NaN where nothing was explored.
    """
    _check(given, truth)
    weight = shares(given)
    values = np.where(np.isnan(given.values), 0.0, given.values)
    weight = np.where(np.isnan(given.values) & ~np.isnan(weight), 0.0, weight)
    away = (np.abs(values - truth[..., None]) * weight).sum(-1)
    # E|X - X'| / 2 is the integral of F (1 - F), constant between neighbouring values.
    gaps = np.diff(given.values, axis=-1)
    below = np.cumsum(weight, -1)[..., :-1]
    spread = (np.where(np.isnan(gaps), 0.0, gaps) * below * (1 - below)).sum(-1)
    return np.maximum(0.0, away - spread) if _any(given) else mean(given)


def pit(given: Distributions, truth: Floats) -> tuple[Floats, Floats]:
    """The mass below the truth, and the mass up to and with it, (C, M) each.

    The probability integral transform of a discrete distribution lies between them.
    """
    _check(given, truth)
    weight, apart = shares(given), given.values - truth[..., None]
    same = _SAME * np.maximum(1.0, np.abs(truth[..., None]))
    undefined = np.isnan(truth) | ~(given.probabilities.sum(-1) > 0)
    below = np.where(undefined, np.nan, np.where(apart < -same, weight, 0.0).sum(-1))
    upto = np.where(undefined, np.nan, np.where(apart <= same, weight, 0.0).sum(-1))
    return np.clip(below, 0, 1), np.clip(upto, 0, 1)


def covered(given: Distributions, truth: Floats, level: float) -> Floats:
    """Whether the central interval of so much mass holds the truth: 1, 0, or NaN, (C, M).

    The interval goes from the quantile at (1 - level) / 2 to that at (1 + level) / 2, both ends
    included, so that its mass is at least `level`.
    """
    _check(given, truth)
    low, high = (quantile(given, (1 + side * level) / 2) for side in (-1, 1))
    same = _SAME * np.maximum(1.0, np.abs(truth))
    inside = (truth >= low - same) & (truth <= high + same)
    return np.where(np.isnan(low) | np.isnan(truth), np.nan, inside.astype(np.float64))


def _check(given: Distributions, truth: Floats) -> None:
    if truth.shape != given.values.shape[:2]:
        shape = given.values.shape[:2]
        raise ValueError(f"one truth an answer is needed, {shape!r}; came {truth.shape!r}")
