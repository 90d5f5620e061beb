"""Heads set to zero, to their mean over contexts, or to another context's value.

A head's value is its part of what the layer's output projection reads (transformer-lens'
`hook_z`). It is changed there, before the projection, so that no weight changes and attention
itself runs as always, on every path of capture.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor, nn

from probes.attention import active_recorder
from probes.head_names import Head, parse_heads
from probes.head_values import HeadValues, asked_positions, head_grid, output_projections
from probes.model_facts import cache_argument, model_name, the_module
from prompts.refusal import Refusal


@contextmanager
def replace_heads(
    model: Any,
    heads: Sequence[Any],
    to: HeadValues | Literal["zero"],
    *,
    positions: Tensor | Sequence[int] | None = None,
) -> Iterator[None]:
    """Inside the block, every forward of the model runs with these heads set to a value.

    `heads`: names as `L3H5`, `(3, 5)`, `L3` (a whole layer). `to`: "zero"; or values of
    `head_values`, of one context or of as many as the forward has prompts (`.mean()`, `.of(i)`).
    `positions`: which, counted from the prompt's first token, cached tokens included; without
    them, those of the values, and for "zero" every one. Works with whole prompts, caches and
    shared prefixes alike; generated tokens are positions too. Hooks go when the block ends,
    whatever ends it. Refuses positions that no forward in the block reached.
    """
    module, grid = the_module(model), head_grid(model)
    values = None if to == "zero" else to
    if isinstance(to, str) and to != "zero":
        raise Refusal(f"needed 'zero' or head values, came {to!r}")
    if positions is not None:
        positions = asked_positions(positions, None, model_name(module))
    if values is not None:
        values = values if positions is None else values.at(positions)
        positions = values.positions
    edit = _Edit(module, positions)
    projections = output_projections(module)
    with ExitStack() as hooks:
        hooks.callback(module.register_forward_pre_hook(edit.begin, with_kwargs=True).remove)
        for layer, chosen in _by_layer(parse_heads(heads, grid)).items():
            value = None if values is None else _value(values, layer, chosen, module)
            hook = edit.hook(layer, chosen, grid.heads, value)
            hooks.callback(projections[layer].register_forward_pre_hook(hook).remove)
        yield
    edit.refuse_unreached()


def _by_layer(heads: Sequence[Head]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for layer, head in heads:
        found.setdefault(layer, []).append(head)
    return found


def _value(values: HeadValues, layer: int, heads: list[int], module: Any) -> Tensor:
    """(context, position, chosen head, dim)"""
    if layer not in values.values:
        raise Refusal(
            f"needed values of layer {layer}, came layers {sorted(values.values)!r}",
            where=model_name(module),
        )
    return values.values[layer][:, :, heads]


@dataclass
class _Edit:
    """What the forwards of one block have in common: how far the cache is, what was reached."""

    module: Any
    positions: Tensor | None
    past: int = 0
    reached: dict[int, set[int]] = field(default_factory=dict)

    def begin(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Before each forward: the number of tokens that its cache already holds."""
        recorder = active_recorder()
        if recorder is not None:
            self.past = recorder.past
            return
        bound = signature(self.module.forward).bind_partial(*given, **named).arguments
        bound = {**bound, **bound.get("kwargs", {})}
        # A wrapped forward takes the older name beside the one that its signature shows.
        cache = bound.get(cache_argument(self.module), bound.get("past_key_values"))
        self.past = 0 if cache is None else int(cache.get_seq_length())

    def hook(
        self, layer: int, heads: list[int], count: int, value: Tensor | None
    ) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        """Sets the heads of one layer, before its output projection."""
        reached = self.reached.setdefault(layer, set())

        def change(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            recorder, length = active_recorder(), inputs[0].shape[1]
            here = self.past + torch.arange(length)
            if recorder is not None:
                here = recorder.positions(length)
            reached.update(here.tolist())
            tokens, places = _matches(here, self.positions)
            if len(tokens) == 0:
                return inputs
            z = inputs[0].unflatten(-1, (count, -1)).clone()
            index = tokens[:, None].to(z.device), torch.tensor(heads, device=z.device)
            z[:, index[0], index[1]] = self._new(value, places, z, layer)
            return (z.flatten(-2), *inputs[1:])

        return change

    def _new(self, value: Tensor | None, places: Tensor, z: Tensor, layer: int) -> Tensor:
        if value is None:
            return z.new_zeros(())
        if len(value) not in (1, len(z)) or value.shape[-1] != z.shape[-1]:
            raise Refusal(
                f"needed values of 1 or {len(z)} contexts with {z.shape[-1]} numbers a head, "
                f"came {len(value)} with {value.shape[-1]}",
                where=f"{model_name(self.module)}, layer {layer}",
            )
        return value.to(z)[:, places.to(z.device)]

    def refuse_unreached(self) -> None:
        """A position that nothing reached would leave the model as it was, without a word."""
        asked = set() if self.positions is None else set(self.positions.tolist())
        for layer, reached in self.reached.items():
            missing = sorted(asked - reached)
            if missing or not reached:
                over = f" over positions {missing!r}" if missing else ""
                raise Refusal(
                    f"needed a forward{over} inside the block, came {_said(reached)}",
                    where=f"{model_name(self.module)}, layer {layer}",
                )


def _matches(here: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which tokens of a forward stand at the asked positions, and which of the asked each is."""
    if positions is None:
        return torch.arange(len(here)), torch.arange(len(here))
    tokens, places = (here[:, None] == positions).nonzero(as_tuple=True)
    return tokens, places


def _said(reached: set[int]) -> str:
    return f"one over positions {min(reached)} to {max(reached)}" if reached else "none"
