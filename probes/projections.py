"""Where each attention layer makes its queries, keys and values, and what passes there.

What is read here is before rotation: a rotated query at one position does not compare with one
at another.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probes.head_values import output_projections
from probes.model_facts import model_name, the_module
from probes.query_weights import fused_parts, query_holders
from probes.shape import model_shape
from prompts.refusal import Refusal

_SEPARATE: Mapping[str, tuple[str, str]] = {
    "q_proj": ("k_proj", "v_proj"),
    "query": ("key", "value"),
    "q_lin": ("k_lin", "v_lin"),
    "wq": ("wk", "wv"),
}
_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))
# One matrix in an order of its own, cut by the number of accelerators it was trained on.
_OWN_ORDER = ("codegen",)


class Projection(NamedTuple):
    """A linear layer, and which of its outputs are meant (None: all).

    `norm` normalises them before rotation, None where the family has none.
    """

    module: nn.Module
    rows: Tensor | None = None
    norm: nn.Module | None = None


class LayerProjections(NamedTuple):
    """The linear layers of one attention layer; `layer` is the model's own index."""

    layer: int
    query: Projection
    key: Projection
    value: Projection
    output: nn.Module


def layer_projections(model: Any) -> tuple[LayerProjections, ...]:
    """The projections of every attention layer, first to last.

    Refuses, by name, a family whose keys and values do not come from a matrix (or a slice) of
    their own each, as where both are made from one latent vector.
    """
    module = the_module(model)
    outputs = output_projections(module)
    holders = query_holders(module)
    if len(holders) != len(outputs) or module.config.model_type in _OWN_ORDER:
        raise _unknown(module, "")
    return tuple(
        LayerProjections(layer, *_three(module, holder), output)
        for holder, (layer, output) in zip(holders, outputs.items(), strict=True)
    )


def _three(module: Any, holder: nn.Module) -> tuple[Projection, Projection, Projection]:
    children = dict(holder.named_children())
    for query, (key, value) in _SEPARATE.items():
        if query in children and key in children and value in children:
            three = [Projection(children[name]) for name in (query, key, value)]
            break
    else:
        fused = fused_parts(holder, config=module.config)
        if not fused:
            raise _unknown(module, f"; a layer has {', '.join(children)}")
        name, parts = next(iter(fused.items()))
        three = [Projection(children[name], rows) for rows in parts]
    for names in _NORMS:
        for place, norm in enumerate(children.get(name) for name in names):
            if norm is not None and not isinstance(norm, nn.Identity):
                three[place] = three[place]._replace(norm=norm)
    return three[0], three[1], three[2]


def _unknown(module: Any, said: str) -> Refusal:
    kind = module.config.model_type
    return Refusal(
        f"needed key and value projections of the family {kind!r} that can be told apart{said}",
        where=model_name(module),
    )


@dataclass
class Tapped:
    """What passed in the last forward, by layer, before rotation.

    `queries` (batch, asked token, head, dim). `keys`, `values` (batch, token, key/value head,
    dim). `inputs` (batch, asked token, width): what the key projection read. `outputs` (batch,
    asked token, width): what attention gives after its output projection, before it is added to
    the residual stream.
    """

    queries: dict[int, Tensor] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)


@contextmanager
def tapped(model: Any, *, last: bool = False) -> Iterator[Tapped]:
    """Inside the block each forward leaves what passed; `last`: only the last token is asked."""
    module = the_module(model)
    shape = model_shape(module.config)
    tokens = slice(-1, None) if last else slice(None)
    found = Tapped()
    with ExitStack() as hooks:
        for part in layer_projections(module):
            for kept, projection, heads, asked in (
                (found.queries, part.query, shape.heads, tokens),
                (found.keys, part.key, shape.kv_heads, slice(None)),
                (found.values, part.value, shape.kv_heads, slice(None)),
            ):
                read = _reader(kept, part.layer, projection, heads, asked)
                at = projection.module if projection.norm is None else projection.norm
                hooks.callback(at.register_forward_hook(read).remove)
            input_hook = _input_reader(found.inputs, part.layer, tokens)
            hooks.callback(part.key.module.register_forward_pre_hook(input_hook).remove)
            output_hook = _output_reader(found.outputs, part.layer, tokens)
            hooks.callback(part.output.register_forward_hook(output_hook).remove)
        yield found


def _reader(
    kept: dict[int, Tensor], layer: int, projection: Projection, heads: int, tokens: slice
) -> Callable[[nn.Module, Any, Tensor], None]:
    def read(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        made = output.detach()
        if projection.norm is not None:
            made = made.transpose(1, 2) if _is_by_head(given[0]) else made
            made = made if made.dim() == 4 else torch.unflatten(made, -1, (heads, -1))
        else:
            rows = projection.rows
            made = made if rows is None else made[..., rows.to(made.device)]
            made = torch.unflatten(made, -1, (heads, -1))
        kept[layer] = made[:, tokens]

    return read


def _is_by_head(given: Tensor) -> bool:
    """Whether a norm is handed (batch, head, token, dim), as a view of what was projected."""
    return given.dim() == 4 and given.stride(1) < given.stride(2)


def _input_reader(
    kept: dict[int, Tensor], layer: int, tokens: slice
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def read(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        kept[layer] = inputs[0].detach()[:, tokens]

    return read


def _output_reader(
    kept: dict[int, Tensor], layer: int, tokens: slice
) -> Callable[[nn.Module, Any, Tensor], None]:
    def read(_: nn.Module, __: Any, output: Tensor) -> None:
        kept[layer] = output.detach()[:, tokens]

    return read
