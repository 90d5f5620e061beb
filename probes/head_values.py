"""What attention heads give to the residual stream, before their output projection mixes them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from probes.head_names import HeadGrid
from probes.model_facts import (
    attention_layers,
    attention_path,
    forget_lengths,
    input_device,
    model_name,
    the_module,
)
from probes.query_weights import output_axis, query_holders
from probes.shape import model_shape
from prompts.refusal import Refusal

OUTPUT_PROJECTIONS = ("o_proj", "c_proj", "dense", "out_proj")


@dataclass(frozen=True)
class HeadValues:
    """What heads give at some positions, before the output projection.

    `values`: by layer, (context, position, head, dim). `positions` (position,): counted from the
    prompt's first token.
    """

    values: Mapping[int, Tensor]
    positions: Tensor

    def mean(self) -> "HeadValues":
        """The mean over contexts, at each position by itself."""
        return self._each(lambda value: value.mean(0, keepdim=True))

    def of(self, context: int) -> "HeadValues":
        """The values of one context, from 0."""
        return self._each(lambda value: value[context][None])

    def at(self, positions: Tensor) -> "HeadValues":
        """The values at some of the positions; refuses one that is not held."""
        held = {int(position): place for place, position in enumerate(self.positions)}
        if missing := [int(p) for p in positions if int(p) not in held]:
            raise Refusal(f"needed values at positions {missing!r}, came {list(held)!r}")
        places = torch.tensor([held[int(position)] for position in positions])
        some = self._each(lambda value: value[:, places.to(value.device)])
        return replace(some, positions=positions)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "HeadValues":
        return replace(self, values={i: change(value) for i, value in self.values.items()})


def head_grid(model: Any) -> HeadGrid:
    """The heads of a loaded model or of its module; refuses a model without attention."""
    module = the_module(model)
    attention_path(module)
    return HeadGrid(attention_layers(module), model_shape(module.config).heads)


def output_projections(model: Any) -> dict[int, nn.Module]:
    """Each attention layer's output projection, by layer.

    Refuses, by name, a family in which they cannot be found for certain: one child of each
    module that makes queries, reading as many numbers for each head.
    """
    module, grid = the_module(model), head_grid(model)
    holders = query_holders(module) or _latent_holders(module)
    kind = getattr(module.config, "model_type", type(module).__name__)
    if len(holders) != len(grid.layers):
        raise Refusal(
            f"needed {len(grid.layers)} attention modules of the family {kind!r}, "
            f"came {len(holders)}",
            where=model_name(module),
        )
    found = {}
    for layer, holder in zip(grid.layers, holders, strict=True):
        children = dict(holder.named_children())
        named = [children[name] for name in OUTPUT_PROJECTIONS if name in children]
        if len(named) != 1 or _inputs(named[0]) % grid.heads:
            raise Refusal(
                f"needed the output projection of the family {kind!r} under one of "
                f"{', '.join(OUTPUT_PROJECTIONS)}; layer {layer} has {', '.join(children)}",
                where=model_name(module),
            )
        found[layer] = named[0]
    return found


def _latent_holders(module: nn.Module) -> list[nn.Module]:
    """Modules that make queries from a latent vector (DeepSeek)."""
    return [part for part in module.modules() if "q_b_proj" in dict(part.named_children())]


def _inputs(projection: Any) -> int:
    known = getattr(projection, "in_features", None)
    return int(known or projection.weight.shape[1 - output_axis(projection)])


@torch.inference_mode()
def head_values(
    model: Any, ids: Tensor, positions: Tensor, *, attention_mask: Tensor | None = None
) -> HeadValues:
    """What every head gives at some positions of whole prompts, ids (context, token)."""
    module, grid = the_module(model), head_grid(model)
    asked = asked_positions(positions, ids.shape[1], model_name(module))
    values: dict[int, Tensor] = {}

    def reader(layer: int) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def read(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            z = inputs[0][:, asked.to(inputs[0].device)]
            values[layer] = z.unflatten(-1, (grid.heads, -1)).detach().clone()

        return read

    arguments = {} if attention_mask is None else {"attention_mask": attention_mask}
    forget_lengths(module)
    with ExitStack() as hooks:
        for layer, projection in output_projections(module).items():
            hooks.callback(projection.register_forward_pre_hook(reader(layer)).remove)
        module.base_model(input_ids=ids.to(input_device(module)), use_cache=False, **arguments)
    _refuse_unread(module, grid.layers, values)
    return HeadValues(values, asked)


def asked_positions(positions: Any, length: int | None, where: str) -> Tensor:
    """The positions (position,), refused outside a prompt of `length` tokens (None: any)."""
    asked = torch.as_tensor(positions, dtype=torch.long)
    most = int(asked.max()) if length is None and asked.numel() else (length or 0) - 1
    if asked.dim() != 1 or not asked.numel() or int(asked.min()) < 0 or int(asked.max()) > most:
        said = "0 on" if length is None else f"0 to {most}"
        raise Refusal(f"needed positions from {said}, came {asked.tolist()!r}", where=where)
    return asked


def _refuse_unread(module: Any, layers: tuple[int, ...], values: Mapping[int, Tensor]) -> None:
    if missing := [layer for layer in layers if layer not in values]:
        raise Refusal(
            f"needed a call of every output projection, came none of layer {missing[0]}",
            where=model_name(module),
        )
