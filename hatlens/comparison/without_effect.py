"""Settings that were given and change nothing beside others: each is named, none ignored unseen."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hatlens.comparison.config import PRESETS, SimilarityConfig
from hatlens.comparison.regression import REGRESSION


class Idle(NamedTuple):
    """When a setting changes nothing, and what would make it count."""

    is_so: Callable[[SimilarityConfig], bool]
    needs: str


_LCGD = Idle(lambda c: c.ft != "lcgd" and not c.dose, "--ft lcgd")
_LINES = Idle(
    lambda c: c.task != REGRESSION and c.other_task not in ("auto", REGRESSION),
    "lines of regression, as --task or --other-task",
)
IDLE: Mapping[str, Idle] = MappingProxyType(
    {
        "step_norm": Idle(lambda c: c.ft != "lcgd", "--ft lcgd"),
        "readout": _LCGD,
        "layer_loss": _LCGD,
        "lr_split": Idle(lambda c: c.lr is not None, "--lr auto"),
        "balanced": Idle(lambda c: c.task == REGRESSION, "a task with labels"),
        "label_score": Idle(lambda c: c.task == REGRESSION, "a task with labels"),
        "order_queries": Idle(lambda c: c.orders == 0, "--orders 10"),
        "twin_seeds": Idle(lambda c: not c.twins, "--twins"),
        **dict.fromkeys(("features", "condition", "noise", "layout", "codec"), _LINES),
    }
)
"""Settings that others can make idle."""
QUERIES = ("order_queries", "kate_queries", "vector_queries")
"""Settings that take so many of the queries."""


def without_effect(config: SimilarityConfig, queries: int) -> list[str]:
    """One sentence for each setting that was given in vain, or for more queries than there are."""
    usual = {name: field.default for name, field in SimilarityConfig.model_fields.items()}
    usual |= PRESETS[config.preset]
    found = [
        f"setting {name!r} has no effect here: it needs {one.needs}"
        for name, one in IDLE.items()
        if getattr(config, name) != usual[name] and one.is_so(config)
    ]
    return found + [
        f"setting {name!r} asks for {asked} queries, and there are {queries}"
        for name in QUERIES
        if queries < (asked := getattr(config, name)) != usual[name]
    ]
