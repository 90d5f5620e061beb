"""The knobs of synthetic contexts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prompts.functions import target_named
from prompts.refusal import Refusal

SPREADS = 3.5


@dataclass(frozen=True)
class Design:
    """The knobs of synthetic contexts.

    x ~ N(0, R diag(geomspace(1, 1/condition, P)) R'), a fresh rotation R per context;
    y = (f(x) + noise e) / sqrt(1 + noise^2) + b with f of mean 0 and sd 1 over that population,
    e ~ N(0, 1) and b ~ U(-.5, .5): `noise` is the noise's sd as a fraction of the signal's, and
    the sd of y - b is 1. f reads x as printed. `x_scale` and `w_scale` scale x and f. The printed
    range is +-3.5 (times the scale, where above 1) unless `x_half_range` or `y_half_range` says
    otherwise: a scaled study is compared with an unscaled one that has the same half ranges.
    `query_push` moves each query by that much, up or down, along the weakest eigenvector of its
    context's Xc'Xc (unit: the sd of x along its strongest direction).
    """

    features: int = 2
    examples: int = 20
    queries: int = 8
    contexts: int = 64
    condition: float = 100.0
    noise: float = 0.1
    function: str = "linear"
    x_scale: float = 1.0
    w_scale: float = 1.0
    query_push: float = 0.0
    x_half_range: float | None = None
    y_half_range: float | None = None

    def __post_init__(self) -> None:
        target_named(self.function)
        counts = ("features", "examples", "queries", "contexts")
        scales = ("x_scale", "w_scale", "x_half_range", "y_half_range")
        for names, low, strict in (
            (counts, 1, False),
            (("condition",), 1, False),
            (("noise", "query_push"), 0, False),
            (scales, 0, True),
        ):
            for name in names:
                number = getattr(self, name)
                if number is None:
                    continue
                if not np.isfinite(number) or number < low or (strict and number == low):
                    needed = f"above {low}" if strict else f"at least {low}"
                    raise Refusal(f"{name} must be a number {needed}; came {number!r}")

    @property
    def half_ranges(self) -> NDArray[np.float64]:
        """Half of the printed range of every column before printing, x then y: (P+1,)."""
        x_half = self.x_half_range or SPREADS * max(1.0, self.x_scale)
        y_half = self.y_half_range or SPREADS * max(1.0, self.w_scale)
        return np.array([x_half] * self.features + [y_half])
