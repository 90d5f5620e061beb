"""Context as an update of the weights that read it: an identity that a running model must obey.

Inside a block whose output is u + MLP(norm(u)), u = x + a, text before a token changes u from u_0
to u_1. The first matrix W of the MLP then reads z_1 in place of z_0, which is what the matrix
W + W (z_1 - z_0) z_0' / |z_0|^2 makes of z_0; what passes by the MLP is a bias of u_1 - u_0
(arXiv 2507.16003, theorem 2.2 and its residual form). So the block's output with the text is that
of the updated block without it, up to rounding.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.finetune_weights import decoder_blocks
from probes.head_values import output_projections
from probes.model_facts import attention_layers, forget_lengths, input_device, the_module
from probes.projections import layer_projections
from probes.query_weights import output_axis

_SUM_TOLERANCE = 1e-3


class ImplicitUpdate(NamedTuple):
    """`residual`: |output with the text - output of the updated block| / |output with the text|
    of the last token, NaN where the block is of another form, as `reason` says. `layer`: the
    block. `update`: |Delta W| / |W| of the first matrix. `moved`: |output with the text - without|
    / |output with the text|, what the update has to explain.
    """

    residual: float
    layer: int
    update: float
    moved: float
    reason: str = ""


@dataclass
class _Passed:
    """What passed at the last token: block input and output, attention output, matrices' inputs."""

    block_input: Tensor | None = None
    block_output: Tensor | None = None
    attention: Tensor | None = None
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)

    def stream(self) -> Tensor:
        """u = x + a."""
        assert self.block_input is not None
        assert self.attention is not None
        return self.block_input + self.attention

    def output(self) -> Tensor:
        assert self.block_output is not None
        return self.block_output


def implicit_update(
    loaded: Any, before: NDArray[np.int64], query: NDArray[np.int64], *, layer: int | None = None
) -> ImplicitUpdate:
    """The identity on one block (default: the first with attention) and one query.

    `before`: the text's tokens, <bos> first where the model has one; the query alone is run behind
    that first token only where it is part of `query`. Runs the updated weights in the model, and
    puts its own back.
    """
    module = the_module(loaded)
    place = attention_layers(module)[0] if layer is None else layer
    block = decoder_blocks(module)[place]
    matrices = _matrices(module, block, place)
    with_text = _run(module, block, matrices, place, np.r_[before, query])
    alone = _run(module, block, matrices, place, query)
    first = _first_matrices(with_text)
    reason = _other_form(alone, first)
    if reason:
        return ImplicitUpdate(float("nan"), place, float("nan"), float("nan"), reason)
    with _updated(matrices, first, alone, with_text) as size:
        changed = _run(module, block, matrices, place, query)
    wanted = with_text.output()
    made = changed.output() + with_text.stream() - alone.stream()
    length = float(wanted.norm())
    return ImplicitUpdate(
        residual=float((made - wanted).norm()) / length,
        layer=place,
        update=size,
        moved=float((alone.output() - wanted).norm()) / length,
    )


def _matrices(module: Any, block: nn.Module, layer: int) -> dict[str, nn.Module]:
    """The linear layers of a block that are not its attention's."""
    own = next(part for part in layer_projections(module) if part.layer == layer)
    attention = {id(m) for m in (own.query.module, own.key.module, own.value.module, own.output)}
    return {
        name: part
        for name, part in block.named_modules()
        if isinstance(getattr(part, "weight", None), Tensor)
        and type(part).__name__ in ("Linear", "Conv1D")
        and id(part) not in attention
    }


@torch.inference_mode()
def _run(
    module: Any,
    block: nn.Module,
    matrices: dict[str, nn.Module],
    layer: int,
    tokens: NDArray[np.int64],
) -> _Passed:
    passed = _Passed()

    def last(value: Any) -> Tensor:
        hidden = value[0] if isinstance(value, tuple) else value
        kept: Tensor = hidden.detach()[..., -1, :].double().flatten().cpu()
        return kept

    def enter(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        passed.block_input = last(given[0] if given else named["hidden_states"])

    def leave(_: nn.Module, __: Any, output: Any) -> None:
        passed.block_output = last(output)

    def attend(_: nn.Module, __: Any, output: Any) -> None:
        passed.attention = last(output)

    with ExitStack() as hooks:
        hooks.callback(block.register_forward_pre_hook(enter, with_kwargs=True).remove)
        hooks.callback(block.register_forward_hook(leave).remove)
        hooks.callback(output_projections(module)[layer].register_forward_hook(attend).remove)
        for name, matrix in matrices.items():

            def read(_: nn.Module, given: Any, output: Any, name: str = name) -> None:
                passed.inputs[name], passed.outputs[name] = last(given[0]), last(output)

            hooks.callback(matrix.register_forward_hook(read).remove)
        forget_lengths(module)
        ids = torch.as_tensor(tokens, dtype=torch.long)[None].to(input_device(module))
        module(input_ids=ids, use_cache=False)
    return passed


def _first_matrices(passed: _Passed) -> list[str]:
    """The matrices that read what the first one reads: gate and up of a gated MLP, else one."""
    if not passed.inputs:
        return []
    first = next(iter(passed.inputs.values()))
    return [name for name, given in passed.inputs.items() if torch.equal(given, first)]


def _other_form(alone: _Passed, first: list[str]) -> str:
    """Why the identity cannot be asked of this block; empty where it can."""
    if not first or len(first) == len(alone.inputs):
        return "the block has no MLP of plain matrices (as where experts are chosen)"
    made = list(alone.outputs.values())[-1]
    output = alone.output()
    whole = alone.stream() + made if made.shape == output.shape else None
    if whole is None or float((whole - output).norm()) > _SUM_TOLERANCE * float(output.norm()):
        return "the block's output is not its input, its attention and its MLP added up"
    if float(next(iter(alone.inputs.values())).norm()) == 0:
        return "the MLP reads a zero vector"
    return ""


@contextmanager
def _updated(
    matrices: dict[str, nn.Module], first: list[str], alone: _Passed, with_text: _Passed
) -> Iterator[float]:
    """Inside, the first matrices are W + W (z_1 - z_0) z_0' / |z_0|^2; yields the relative size."""
    former: dict[str, Tensor] = {}
    sizes = []
    try:
        for name in first:
            matrix: Any = matrices[name]
            z0, z1 = alone.inputs[name], with_text.inputs[name]
            weight = matrix.weight.data
            axis = output_axis(matrix)
            wide = weight.double().cpu()
            out_by_in = wide if axis == 0 else wide.T
            change = torch.outer(out_by_in @ (z1 - z0), z0) / z0.dot(z0)
            sizes.append(float(change.norm() / wide.norm()))
            new = out_by_in + change
            former[name] = weight
            matrix.weight.data = (new if axis == 0 else new.T).to(weight).contiguous()
        yield max(sizes)
    finally:
        for name, weight in former.items():
            any_matrix: Any = matrices[name]
            any_matrix.weight.data = weight
