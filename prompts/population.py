"""Where the points of a synthetic context come from, and what turns their x into y."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prompts.design import Design
from prompts.functions import FUNCTIONS, OUTLIER_SHIFT, standardised
from prompts.numerals import Codec

Floats = NDArray[np.float64]


def coordinates(design: Design, codec: Codec) -> tuple[Floats, Floats]:
    """Middle and half range of the printed columns, x then y: (P+1,) each."""
    half = design.half_ranges
    if not codec.affine:
        return np.zeros_like(half), half
    middle, half_range = (codec.low + codec.high) / 2, (codec.high - codec.low) / 2
    return np.full_like(half, middle), np.full_like(half, half_range)


@dataclass(frozen=True)
class Population:
    """Points x = root @ z with normal z (P,), and the way a study prints them."""

    design: Design
    codec: Codec
    root: Floats

    @classmethod
    def drawn(cls, design: Design, codec: Codec, rng: np.random.Generator) -> "Population":
        """A population with a fresh uniformly random rotation (Mezzadri, math-ph/0609050)."""
        features = design.features
        rotation, triangle = np.linalg.qr(rng.standard_normal((features, features)))
        rotation *= np.sign(np.diag(triangle))
        spectrum = np.geomspace(1, 1 / design.condition, features)
        return cls(design, codec, rotation * np.sqrt(spectrum) * design.x_scale)

    def points(self, count: int, rng: np.random.Generator) -> Floats:
        """Fresh points before printing: (count, P)."""
        return np.asarray(rng.standard_normal((count, len(self.root))) @ self.root.T)

    def print_x(self, x: Floats) -> Floats | None:
        """Points as printed, or None where a number leaves the printed range."""
        half = float(self.design.half_ranges[0])
        return self.codec.printed(x, low=-half, high=half) if np.abs(x).max() <= half else None

    def print_y(
        self, *printed: Floats, examples: int, rng: np.random.Generator
    ) -> list[Floats] | None:
        """Printed y of each set of printed points (n, P), or None where one leaves the range.

        One function, offset and set of noise draws for all sets: point i has the same noise in
        each. The first `examples` points are examples, the rest queries, which have no outliers.
        """
        design, half = self.design, self.design.half_ranges
        middle, half_range = coordinates(design, self.codec)
        target = FUNCTIONS[design.function]
        function = standardised(target.draw(rng, len(self.root)), self.root, rng)
        offset = rng.uniform(-0.5, 0.5)
        errors = rng.standard_normal(len(printed[0]))
        jumps = OUTLIER_SHIFT * rng.choice([-1.0, 1.0], len(errors))
        jumps *= rng.random(len(errors)) < target.outlier_share
        jumps[examples:] = 0
        every = []
        for points in printed:
            x = (points - middle[:-1]) / half_range[:-1] * half[:-1]
            signal = design.w_scale * function(x) + design.noise * errors
            y = signal / np.sqrt(1 + design.noise**2) + offset + jumps
            if np.abs(y).max() > half[-1]:
                return None
            every.append(self.codec.printed(y, low=-half[-1], high=half[-1]))
        return every
