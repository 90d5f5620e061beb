"""Which weights a way of fine-tuning moves, and copies that can be put in their place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probes.model_facts import model_name, text_config
from probes.projections import Projection, layer_projections
from probes.query_weights import output_axis, query_holders
from prompts.refusal import Refusal


class Moving(NamedTuple):
    """A parameter that may move: along `axis` only at `rows` (None: everywhere).

    `layer`: the model's own index, None for what belongs to no layer (embeddings, last norm).
    """

    parameter: nn.Parameter
    layer: int | None
    rows: Tensor | None = None
    axis: int = 0

    def part(self, tensor: Tensor) -> Tensor:
        """The part of a tensor of the parameter's shape that may move."""
        if self.rows is None:
            return tensor
        return tensor.index_select(self.axis, self.rows.to(tensor.device))

    def step(self, change: Tensor) -> None:
        """Subtract a change of the moving part; not one bit of the rest is touched."""
        data = self.parameter.data
        if self.rows is None:
            data.sub_(change)
        else:
            rows = self.rows.to(data.device)
            data.index_copy_(self.axis, rows, data.index_select(self.axis, rows) - change)


def keys_and_values(model: Any, layer: int | None) -> list[Moving]:
    """Weights and biases of the key and value projections of all attention layers."""
    found = []
    for part in layer_projections(model):
        if part.key.rows is not None and part.value.rows is not None:
            rows = torch.cat([part.key.rows, part.value.rows])
            found += _of_projection(Projection(part.key.module, rows), part.layer)
        else:
            found += _of_projection(part.key, part.layer)
            found += _of_projection(part.value, part.layer)
    return found


def values_of_one_layer(model: Any, layer: int | None) -> list[Moving]:
    """The value matrix of one layer, without its bias (arXiv 2310.08540)."""
    layers = {part.layer: part for part in layer_projections(model)}
    if layer not in layers:
        raise Refusal(
            f"needed one of the attention layers {list(layers)!r}, came {layer!r}",
            where=model_name(model),
        )
    return _of_projection(layers[layer].value, layer)[:1]


def whole_model(model: Any, layer: int | None) -> list[Moving]:
    """Every parameter; a tied one once."""
    layer_of = {
        id(parameter): index
        for index, block in enumerate(decoder_blocks(model))
        for parameter in block.parameters()
    }
    return [Moving(p, layer_of.get(id(p))) for p in model.parameters()]


MOVING: Mapping[str, Callable[[Any, int | None], list[Moving]]] = MappingProxyType(
    {
        "gd": keys_and_values,
        "lcgd": keys_and_values,
        "whole": whole_model,
        "value-layer": values_of_one_layer,
    }
)


def _of_projection(projection: Projection, layer: int) -> list[Moving]:
    module: Any = projection.module
    weight = Moving(module.weight, layer, projection.rows, output_axis(module))
    if getattr(module, "bias", None) is None:
        return [weight]
    return [weight, Moving(module.bias, layer, projection.rows, 0)]


def decoder_blocks(model: Any) -> list[nn.Module]:
    """The blocks of a model, first to last; refuses a model whose list of them is not found."""
    holders = {id(holder) for holder in query_holders(model)}
    count = int(text_config(model).num_hidden_layers)
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            inside = {id(part) for block in module for part in block.modules()}
            if holders and holders <= inside:
                return list(module)
    raise Refusal(f"needed a list of {count} blocks, found none", where=model_name(model))


class Weights(NamedTuple):
    """Parameters of a model, and tensors that can stand in their place."""

    parameters: tuple[nn.Parameter, ...]
    tensors: tuple[Tensor, ...]


@contextmanager
def in_place(weights: Weights) -> Iterator[None]:
    """Inside the block the model runs on these tensors.

    The base tensors are set aside, not written to, so afterwards the model has the very same.
    """
    base = [parameter.data for parameter in weights.parameters]
    try:
        for parameter, tensor in zip(*weights, strict=True):
            parameter.data = tensor
        yield
    finally:
        for parameter, tensor in zip(weights.parameters, base, strict=True):
            parameter.data = tensor


@contextmanager
def trainable_copies(moving: Sequence[Moving]) -> Iterator[Weights]:
    """Inside the block the moving parameters are copies that gather gradients, alone of all."""
    parameters = tuple(one.parameter for one in moving)
    former = [parameter.requires_grad for parameter in parameters]
    copies = Weights(parameters, tuple(p.data.clone() for p in parameters))
    with in_place(copies):
        try:
            for parameter in parameters:
                parameter.requires_grad_(True)
                parameter.grad = None
            yield copies
        finally:
            for parameter, needed in zip(parameters, former, strict=True):
                parameter.grad = None
                parameter.requires_grad_(needed)
