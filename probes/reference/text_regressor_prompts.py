"""The prompts that the text regressor is trained on, thousands a second, as numbers and tokens.

A prompt's law is that of `prompts.design.Design` with one feature, seen through three knobs which
differ from prompt to prompt: x has standard deviation s ~ U(.5, 1.75); the line's slope is
u ~ U(-1.5, 1.5), so that the signal has standard deviation s |u|; the noise is 0 or .1 of that.
A study's default design is the point s = 1, |u| = 1: in distribution, without being all there is.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.reference.text_regressor import ALPHABET, BEGIN
from prompts.design import SPREADS
from prompts.numerals import Codec

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
SPREAD_OF_X, STEEPEST, NOISE = (0.5, 1.75), 1.5, 0.1


class Knobs(NamedTuple):
    """What differs from prompt to prompt, (prompt,) each.

    `slope` of the line, `x_scale` the standard deviation of x, `noise` the noise's as a share of
    the signal's; x and y have half ranges of 3.5.
    """

    slope: Floats
    x_scale: Floats
    noise: Floats


class Lines(NamedTuple):
    """Printed numbers of many prompts: x and y (prompt, line), integers."""

    x: Integers
    y: Integers


DrawKnobs = Callable[[int, np.random.Generator], Knobs]


def training_knobs(count: int, rng: np.random.Generator) -> Knobs:
    """Knobs of so many training prompts."""
    return Knobs(
        rng.uniform(-STEEPEST, STEEPEST, count),
        rng.uniform(*SPREAD_OF_X, count),
        np.where(rng.random(count) < 0.5, 0.0, NOISE),
    )


def study_knobs(count: int, rng: np.random.Generator) -> Knobs:
    """The knobs of a study's default design, so many times: slope 1 or -1, spread 1."""
    one = np.ones(count)
    return Knobs(rng.choice([-1.0, 1.0], count), one, NOISE * one)


def draw_lines(
    draw_knobs: DrawKnobs, count: int, lines: int, codec: Codec, *, rng: np.random.Generator
) -> Lines:
    """So many prompts of so many lines; one with a number out of range is drawn again whole.

    With `study_knobs` equal in distribution to `prompts.contexts.draw_contexts`.
    """
    x, y = np.zeros((0, lines), np.int64), np.zeros((0, lines), np.int64)
    while len(x) < count:
        knobs = draw_knobs(2 * (count - len(x)) + 16, rng)
        more_x, more_y = _drawn(knobs, lines, codec, rng)
        x, y = np.concatenate([x, more_x]), np.concatenate([y, more_y])
    return Lines(x[:count], y[:count])


def _drawn(
    knobs: Knobs, lines: int, codec: Codec, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """The prompts that stay in range."""
    slope, x_scale, noise = (values[:, None] for values in knobs)
    shape = (len(slope), lines)
    x = x_scale * rng.standard_normal(shape)
    printed = codec.printed(x, low=-SPREADS, high=SPREADS)
    middle, half = (codec.high + codec.low) / 2, (codec.high - codec.low) / 2
    seen = (printed - middle) / half * SPREADS
    errors = noise * np.abs(slope) * x_scale * rng.standard_normal(shape)
    offset = rng.uniform(-0.5, 0.5, (len(slope), 1))
    y = (slope * seen + errors) / np.sqrt(1 + noise**2) + offset
    fits = (np.abs(x) <= SPREADS).all(axis=1) & (np.abs(y) <= SPREADS).all(axis=1)
    printed_y = codec.printed(y, low=-SPREADS, high=SPREADS)
    return printed[fits].astype(np.int64), printed_y[fits].astype(np.int64)


def line_tokens(lines: Lines) -> Integers:
    """The prompts as tokens (prompt, 1 + 6 x lines): ``<s>``, then ``37;52`` and a line break."""
    count, length = lines.x.shape
    zero = ALPHABET.index("0")
    tokens = np.empty((count, length, 6), np.int64)
    for place, numbers in ((0, lines.x), (3, lines.y)):
        tokens[..., place], tokens[..., place + 1] = zero + numbers // 10, zero + numbers % 10
    tokens[..., 2], tokens[..., 5] = ALPHABET.index(";"), ALPHABET.index("\n")
    begin = np.full((count, 1), ALPHABET.index(BEGIN))
    return np.concatenate([begin, tokens.reshape(count, -1)], axis=1)


def answer_places(lines: int, *, first: int) -> Integers:
    """Places of y's two digits and the line break after them in `line_tokens`, (line x 3,).

    From line `first` (from 0) on.
    """
    starts = 1 + 6 * np.arange(first, lines)[:, None] + 3
    return np.asarray((starts + [0, 1, 2]).ravel())
