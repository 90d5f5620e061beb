"""Where a layer's queries get their scale, and how to change it by a factor.

Scores are linear in the query, so a factor on W_Q (weight and bias) is a factor on the scores.
Where the query is normalised first (QK-norm), the gain of that norm takes the factor instead.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from probes.shape import model_shape
from prompts.refusal import Refusal

_NORMS = ("q_norm", "q_layernorm", "query_layernorm")
_SEPARATE = ("q_proj", "query", "q_lin", "wq")


class FusedParts(NamedTuple):
    """Indices along the output axis of a fused matrix: of its queries, its keys, its values."""

    query: Tensor
    key: Tensor
    value: Tensor


def scale_queries(attention: nn.Module, factor: float, *, config: Any) -> None:
    """Multiplies the queries of one attention module by a factor, in place, and nothing else.

    Refuses a module whose query weights cannot be told from its others.
    """
    children = dict(attention.named_children())
    for name in _NORMS:
        gains = _gains(children.get(name))
        if gains:
            for norm in gains:
                _scale_gain(norm, factor)
            return
        if name in children and not isinstance(children[name], nn.Identity):
            sentence = f"the query norm {name!r} has no gain that could be rescaled"
            raise Refusal(sentence, where=type(attention).__name__)
    for name in _SEPARATE:
        if name in children:
            _scale_rows(children[name], factor, None)
            return
    for name, parts in fused_parts(attention, config=config).items():
        _scale_rows(children[name], factor, parts.query)
        return
    raise Refusal(
        f"needed query weights under one of {', '.join((*_SEPARATE, *_FUSED))}; "
        f"it has {', '.join(children)}",
        where=type(attention).__name__,
    )


def query_holders(model: nn.Module) -> list[nn.Module]:
    """The modules of a model that hold query weights, in the order of its layers."""
    names = {*_SEPARATE, *_FUSED}
    return [module for module in model.modules() if names & dict(module.named_children()).keys()]


def fused_parts(attention: nn.Module, *, config: Any) -> Mapping[str, FusedParts]:
    """The children of a module that make queries, keys and values in one, with their parts."""
    children = dict(attention.named_children())
    return {
        name: parts_of(children[name], config)
        for name, parts_of in _FUSED.items()
        if name in children
    }


def output_axis(layer: nn.Module) -> int:
    """The axis of a layer's weight along which its outputs lie."""
    return 1 if isinstance(layer, Conv1D) else 0


def _in_turn(layer: nn.Module, config: Any) -> FusedParts:
    """All queries, then all keys, then all values: GPT-2, Phi-3, MPT."""
    shape = model_shape(config)
    head_size = _outputs(layer) // (shape.heads + 2 * shape.kv_heads)
    queries, keys = shape.heads * head_size, shape.kv_heads * head_size
    rows = torch.arange(queries + 2 * keys)
    return FusedParts(rows[:queries], rows[queries : queries + keys], rows[queries + keys :])


def _by_group(layer: nn.Module, config: Any) -> FusedParts:
    """Queries, then keys, then values of each key/value head: NeoX, BLOOM, Falcon."""
    shape = model_shape(config)
    queries = shape.heads // shape.kv_heads
    rows = torch.arange(_outputs(layer)).view(shape.kv_heads, queries + 2, -1)
    parts = rows[:, :queries], rows[:, queries], rows[:, queries + 1]
    return FusedParts(*(part.flatten() for part in parts))


def _big_code_or_gpt2(layer: nn.Module, config: Any) -> FusedParts:
    parts_of = _in_turn if isinstance(layer, Conv1D) else _by_group
    return parts_of(layer, config)


_FUSED: Mapping[str, Callable[[nn.Module, Any], FusedParts]] = {
    "c_attn": _big_code_or_gpt2,
    "qkv_proj": _in_turn,
    "Wqkv": _in_turn,
    "query_key_value": _by_group,
}


def _outputs(layer: nn.Module) -> int:
    weight: Any = layer.weight
    return int(weight.shape[output_axis(layer)])


@torch.no_grad()
def _scale_rows(layer: Any, factor: float, rows: Tensor | None) -> None:
    for parameter, axis in ((layer.weight, output_axis(layer)), (layer.bias, 0)):
        if parameter is None:
            continue
        factors = torch.full((parameter.shape[axis],), factor if rows is None else 1.0)
        if rows is not None:
            factors[rows] = factor
        along = (
            factors.to(parameter) if axis == parameter.dim() - 1 else factors.to(parameter)[:, None]
        )
        parameter.mul_(along)


def _gains(norm: nn.Module | None) -> list[nn.Module]:
    """A norm, or the norms of each head where a family keeps one a head; none without gains."""
    parts = [] if norm is None else norm.modules()
    return [part for part in parts if isinstance(getattr(part, "weight", None), nn.Parameter)]


@torch.no_grad()
def _scale_gain(norm: Any, factor: float) -> None:
    """Some families keep the gain as it is, some keep what is added to 1: asked of the module."""
    kept = norm.weight.detach().clone()
    bias = getattr(norm, "bias", None)
    probe = torch.linspace(-1.0, 1.0, kept.shape[-1]).to(kept).expand(*kept.shape)
    norm.weight.zero_()
    silent = norm(probe) - (0.0 if bias is None else bias)
    adds_one = bool(silent.abs().max() > 0)
    norm.weight.copy_((1 + kept) * factor - 1 if adds_one else kept * factor)
    if bias is not None:
        bias.mul_(factor)
