"""The table of hypotheses: one line for each kind, with the parameters listed by default."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from analysis.bank.attention import softmax, softmax_pooled
from analysis.bank.covariance import diagonal, factor, ledoit_wolf, threshold
from analysis.bank.fixed_metric import gd_metric, momentum
from analysis.bank.gradient import gd, gd_per_context
from analysis.bank.hypothesis import Hypothesis, Parameter
from analysis.bank.kernels import kernel, kernel_fixed, kernel_left_out, laplace, nearest
from analysis.bank.lexical import edit, first_digit, first_digit_distance
from analysis.bank.local import kernel_ridge, local_linear
from analysis.bank.naming import parsed, written
from analysis.bank.online import (
    channel_gated_delta,
    delta_rule,
    delta_rule_unit,
    gated_delta,
    online_gd,
)
from analysis.bank.positional import last, recency, uniform
from analysis.bank.spectral import min_norm, newton, newton_per_context, ols, pcr, ridge


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
        "newton": Kind(newton, tuple((k,) for k in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18))),
        "newton_per_context": Kind(newton_per_context, ((4,), (8,), (12,))),
        "ledoit_wolf": Kind(ledoit_wolf),
        "threshold": Kind(threshold, ((0.1,), (0.5,))),
        "factor": Kind(factor, ((1,),)),
        "gd": Kind(gd, tuple((k,) for k in (1, 4, 16, 64, 256, 1024))),
        "gd_per_context": Kind(gd_per_context, tuple((k,) for k in (1, 4, 16, 64, 256, 1024))),
        "diagonal": Kind(diagonal),
        "gd_metric": Kind(gd_metric, (("identity",), ("pooled",))),
        "momentum": Kind(momentum, ((0.5,), (0.8,))),
        "softmax": Kind(softmax, ((0.1,), (0.3,), (1.0,))),
        "softmax_pooled": Kind(softmax_pooled, ((1.0,),)),
        "online_gd": Kind(online_gd, ((0.1,), (0.5,), (0.9,))),
        "delta_rule": Kind(delta_rule, ((0.3,), (1.0,))),
        "delta_rule_unit": Kind(delta_rule_unit, ((0.3,), (1.0,))),
        "gated_delta": Kind(gated_delta, ((0.9, 0.3), (0.9, 1.0))),
        "channel_gated_delta": Kind(channel_gated_delta, ((0.99, 0.8, 0.3), (0.99, 0.8, 1.0))),
        "kernel": Kind(kernel, ((1 / 3,), (1.0,), (3.0,))),
        "kernel_fixed": Kind(kernel_fixed, ((0.1,), (0.25,), (0.5,))),
        "kernel_left_out": Kind(kernel_left_out),
        "laplace": Kind(laplace, ((1 / 3,), (1.0,), (3.0,))),
        "kernel_ridge": Kind(kernel_ridge, ((1.0, 0.1), (1.0, 1.0), (3.0, 0.1))),
        "local_linear": Kind(local_linear, ((1 / 3, 0.01), (1.0, 0.01))),
        "nearest": Kind(nearest, ((1,), (3,))),
        "edit": Kind(edit),
        "first_digit": Kind(first_digit),
        "first_digit_distance": Kind(first_digit_distance),
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
        known = list(dict.fromkeys([*KINDS, *BANK]))
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
