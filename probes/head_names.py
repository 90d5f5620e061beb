"""Names of attention heads: `L3H5`, `(3, 5)`, and the hook names of transformer-lens."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from prompts.refusal import Refusal, unknown_name


class Head(NamedTuple):
    """A query head: the model's own index of its layer, and its number in it; both from 0."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


class HeadGrid(NamedTuple):
    """Which heads there are: indices of the layers with attention, and query heads of each."""

    layers: tuple[int, ...]
    heads: int

    def of_layer(self, layer: int) -> tuple[Head, ...]:
        return tuple(Head(layer, head) for head in range(self.heads))

    def all(self) -> tuple[Head, ...]:
        """Every head, layer by layer."""
        return tuple(head for layer in self.layers for head in self.of_layer(layer))


# The axis on which the heads lie. Hooks on keys and values are absent: their index counts
# key/value heads, which several query heads may share.
HOOKS: Mapping[str, int] = MappingProxyType(
    {
        "hook_attn_scores": 1,
        "hook_pattern": 1,
        "hook_q": 2,
        "hook_result": 2,
        "hook_rot_q": 2,
        "hook_z": 2,
    }
)

_LABEL = re.compile(r"L(\d+)(?:H(\d+))?")
_PAIR = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*\)?")
_NAMES = re.compile(r"\([^)]*\)?|[^\s,(\[]+(?:\s*\[[^\]]*\]?)?")
_INDEX = re.compile(r"((?:\s*:\s*,)*)\s*(\d+)\s*((?:,\s*:\s*)*)")
_HOOK = re.compile(r"blocks\.(\d+)\.attn\.(\w+)\s*(?:\[([^\]]*)\])?")


def parse_heads(names: Iterable[Any], grid: HeadGrid) -> tuple[Head, ...]:
    """The named heads in the order of their names, each once; a text may hold several names.

    A name is `L3H5`, `(3, 5)` as text or as two numbers, `blocks.3.attn.hook_z[5]` or, with the
    hook's own axes, `blocks.3.attn.hook_z[:, :, 5]`. `L3` and a hook without an index name every
    head of the layer. Refuses what is none of these (with near names), a layer without attention
    and a head that the model lacks.
    """
    single = [one for name in ([names] if isinstance(names, str) else names) for one in _each(name)]
    found = [head for name in single for head in _heads_of(name, grid)]
    return tuple(dict.fromkeys(found))


def parse_head(name: Any, grid: HeadGrid) -> Head:
    """The one head of this name; refuses a name of a whole layer."""
    found = _heads_of(name, grid)
    if _read(name, grid)[1] is None:
        raise Refusal(f"needed the name of one head, came the layer {name!r}")
    return found[0]


def _each(name: Any) -> list[Any]:
    """The names in a text, between blanks or commas; anything else is one name."""
    if not isinstance(name, str) or _PAIR.fullmatch(name.strip()):
        return [name]
    return _NAMES.findall(name) or [name]


def _heads_of(name: Any, grid: HeadGrid) -> tuple[Head, ...]:
    layer, head = _read(name, grid)
    if layer not in grid.layers:
        raise Refusal(
            f"needed a layer with attention ({_said(grid.layers)}), came layer {layer} in {name!r}"
        )
    if head is None:
        return grid.of_layer(layer)
    if head not in range(grid.heads):
        raise Refusal(f"needed a head from 0 to {grid.heads - 1}, came head {head} in {name!r}")
    return (Head(layer, head),)


def _read(name: Any, grid: HeadGrid) -> tuple[int, int | None]:
    """The layer and the head that a name holds, whether or not the model has them."""
    if not isinstance(name, str):
        return _read_pair(name, grid)
    text = name.strip()
    if found := _LABEL.fullmatch(text):
        return int(found[1]), None if found[2] is None else int(found[2])
    if found := _PAIR.fullmatch(text):
        return int(found[1]), int(found[2])
    if found := _HOOK.fullmatch(text):
        return int(found[1]), _hook_head(found[2], found[3], name)
    raise _unknown(name, grid)


def _read_pair(name: Any, grid: HeadGrid) -> tuple[int, int]:
    try:
        layer, head = name
        if isinstance(layer, bool) or isinstance(head, bool):
            raise TypeError
        return layer.__index__(), head.__index__()
    except (TypeError, ValueError, AttributeError):
        raise _unknown(name, grid) from None


def _hook_head(hook: str, index: str | None, name: str) -> int | None:
    if hook not in HOOKS:
        raise unknown_name("hook with an axis of query heads", hook, HOOKS)
    if index is None:
        return None
    axis = HOOKS[hook]
    found = _INDEX.fullmatch(index.strip())
    before = 0 if found is None else found[1].count(",")
    if found is None or before not in (0, axis) or (before == 0 and found[3]):
        axes = ", ".join([":"] * axis + ["5"])
        raise Refusal(f"needed the head as [5] or, by {hook}'s axes, as [{axes}]; came {name!r}")
    return int(found[2])


def _unknown(name: Any, grid: HeadGrid) -> Refusal:
    """Lists the near names; of a model's hundreds of heads never all."""
    known = [str(head) for head in grid.all()]
    near = get_close_matches(str(name).upper(), known, n=5, cutoff=0.5) or [known[0], known[-1]]
    return Refusal(
        f"unknown head {name!r}; near names: {', '.join(near)}; a head is written L3H5, (3, 5) or "
        "blocks.3.attn.hook_z[5], all heads of a layer L3"
    )


def _said(layers: tuple[int, ...]) -> str:
    """`0 to 29`, or a list where layers without attention lie between."""
    if layers == tuple(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]} to {layers[-1]}"
    return ", ".join(map(str, layers))
