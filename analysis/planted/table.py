"""The table of simulated heads, one line for each source."""

from analysis.planted import digits, inside, mixed, outside
from analysis.planted.scene import Head

INSIDE, OUTSIDE, S_INVERSE = "in M0*", "outside M0*", "inverse"

_SOURCES = (
    (INSIDE, inside.heads(2)),
    (OUTSIDE, outside.ranks()),
    (OUTSIDE, outside.norms()),
    (OUTSIDE, outside.kernels()),
    (OUTSIDE, outside.features()),
    (OUTSIDE, outside.softmaxes()),
    (OUTSIDE, digits.heads()),
    (OUTSIDE, mixed.positions()),
    (OUTSIDE, mixed.mixtures()),
    (OUTSIDE, mixed.answers()),
    (OUTSIDE, mixed.networks()),
)
_INVERSE = (
    "ols",
    "ridge(0.001)",
    "ridge(0.01)",
    "ridge(0.1)",
    "gd(4)",
    "gd(16)",
    "gd(64)",
    "gd(256)",
    "gd(1024)",
)

RIVALS = (
    *(Head(name, group, build) for group, found in _SOURCES for name, build in found.items()),
    *(Head(name, OUTSIDE, outside.banked(name), banked=name) for name in outside.BANKED),
)
INVERSE = tuple(Head(name, S_INVERSE, outside.banked(name), banked=name) for name in _INVERSE)
HEADS = (*RIVALS, *INVERSE)
