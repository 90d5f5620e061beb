"""The table of hypotheses: one line for each kind, with the parameters listed by default."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from analysis.bank.attention import softmax
from analysis.bank.gradient import gd, gd_per_context
from analysis.bank.hypothesis import Hypothesis, Parameter
from analysis.bank.kernels import kernel, kernel_fixed, nearest
from analysis.bank.naming import parsed, written
from analysis.bank.positional import last, recency, uniform
from analysis.bank.spectral import min_norm, newton, ols, pcr, ridge


class Kind(NamedTuple):
    """How hypotheses of one kind are built, and the parameters that the bank lists."""

    build: Callable[..., Hypothesis]
    listed: tuple[tuple[Parameter, ...], ...] = ((),)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "ols": Kind(ols),
        "min_norm": Kind(min_norm),
        "ridge": Kind(ridge, ((0.001,), (0.01,), (0.1,), (1.0,))),
        "pcr": Kind(pcr, ((1,),)),
        "newton": Kind(newton, tuple((k,) for k in (1, 2, 3, 4, 6, 8, 10, 12, 18))),
        "gd": Kind(gd, tuple((k,) for k in (1, 4, 16, 64, 256, 1024))),
        "gd_per_context": Kind(gd_per_context, tuple((k,) for k in (1, 4, 16, 64, 256, 1024))),
        "kernel": Kind(kernel, ((1 / 3,), (1.0,), (3.0,))),
        "kernel_fixed": Kind(kernel_fixed, ((0.25,), (0.5,))),
        "nearest": Kind(nearest, ((1,), (3,))),
        "softmax": Kind(softmax, ((0.1,), (0.3,), (1.0,))),
        "uniform": Kind(uniform),
        "last": Kind(last),
        "recency": Kind(recency, ((0.5,), (0.8,))),
    }
)

_LISTED = [kind.build(*arguments) for kind in KINDS.values() for arguments in kind.listed]
BANK: Mapping[str, Hypothesis] = MappingProxyType({one.name: one for one in _LISTED})


def hypothesis_named(name: str) -> Hypothesis:
    """The hypothesis of that name, also with parameters that the bank does not list.

    ``ridge(0.05)``, ``kernel(1/3)``, ``gd(16,0.9)``. Refuses an unknown name with the near ones,
    and a wrong number of parameters with the signature.
    """
    reading = parsed(name)
    if reading is None or reading[0] not in KINDS:
        kind = name if reading is None else reading[0]
        known = [*KINDS, *BANK]
        near = get_close_matches(name, known, n=5) or get_close_matches(kind, known, n=5)
        raise ValueError(
            f"unknown hypothesis {name!r}; near names: {', '.join(near or sorted(KINDS))}"
        )
    kind, arguments = reading
    signature = inspect.signature(KINDS[kind].build)
    try:
        signature.bind(*arguments)
    except TypeError:
        asked = ", ".join(map(str, signature.parameters)) or "none"
        raise ValueError(
            f"hypothesis {name!r}: needed the parameters of {kind!r} ({asked}); "
            f"came {len(arguments)}, as in {example_of(kind)!r}"
        ) from None
    return KINDS[kind].build(*arguments)


def example_of(kind: str) -> str:
    """A written name of that kind, with the first listed parameters."""
    return written(kind, *KINDS[kind].listed[0])
