"""The table of simulated heads, one line for each source."""

from analysis.planted import digits, inside, mixed, outside
from analysis.planted.scene import Head

_SOURCES = (
    ("in M0*", inside.heads(2)),
    ("outside M0*", outside.ranks()),
    ("outside M0*", outside.norms()),
    ("outside M0*", outside.kernels()),
    ("outside M0*", outside.features()),
    ("outside M0*", outside.spectral()),
    ("outside M0*", digits.heads()),
    ("outside M0*", mixed.positions()),
    ("outside M0*", mixed.mixtures()),
    ("outside M0*", mixed.answers()),
    ("outside M0*", mixed.networks()),
)

RIVALS = tuple(
    Head(name, group, build) for group, found in _SOURCES for name, build in found.items()
)
INVERSE = tuple(
    Head(name, "inverse", outside.banked(name))
    for name in (
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
)
HEADS = (*RIVALS, *INVERSE)
