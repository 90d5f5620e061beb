"""Layer-causal gradient descent (arXiv 2311.07772): each layer learns from its own read-out.

In a prompt, a layer knows of a demonstration only what the layers below it made of it. So here
every block's input is cut off from the gradient, and each block is taught by the loss of the
logits that the model's own last norm and unembedding make of that block's output.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from probes.finetune_loss import Lesson, Losses, cross_entropy, lesson_logits
from probes.finetune_weights import decoder_blocks
from probes.head_values import output_projections
from probes.model_facts import attention_layers, model_name
from prompts.refusal import Refusal

Readout = Literal["block", "attention"]
LayerLoss = Literal["sum", "mean"]


@dataclass
class _Passed:
    """What each block gave back, whole, and its attention output."""

    blocks: dict[int, Any] = field(default_factory=dict)
    attention: dict[int, Tensor] = field(default_factory=dict)

    def read(self, readout: Readout) -> dict[int, Tensor]:
        if readout == "attention":
            return self.attention
        return {layer: _hidden(given) for layer, given in self.blocks.items()}


def layer_causal_backward(
    model: Any, taught: Lesson, *, readout: Readout = "block", layer_loss: LayerLoss = "sum"
) -> Losses:
    """The losses of every attention layer's read-out; each layer's gradients are left in it.

    The mean over layers divides every gradient by the number of attention layers. Refuses a model
    whose logits are not made from its last block's output alone.
    """
    blocks = decoder_blocks(model)
    layers = attention_layers(model)
    with _cut(model, blocks) as passed:
        logits = lesson_logits(model, taught)
    _refuse_other_tail(model, blocks, passed, logits.detach(), taught)
    read = passed.read(readout)
    shares = 1 / len(layers) if layer_loss == "mean" else 1.0
    losses = []
    for layer in layers:
        loss = cross_entropy(_tail(model, blocks, passed, read[layer], taught), taught)
        (loss * shares).backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
    mean = float(cross_entropy(logits.detach(), taught))
    return Losses(mean, np.array(losses))


def _hidden(given: Any) -> Tensor:
    hidden: Tensor = given[0] if isinstance(given, tuple) else given
    return hidden


@contextmanager
def _cut(model: Any, blocks: list[nn.Module]) -> Iterator[_Passed]:
    """Inside, every block's input is detached and what it gives back is held."""
    passed = _Passed()
    with ExitStack() as hooks:
        for layer, block in enumerate(blocks):
            hooks.callback(block.register_forward_pre_hook(_detach, with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(_holder(passed.blocks, layer)).remove)
        for layer, projection in output_projections(model).items():
            hold = _holder(passed.attention, layer)
            hooks.callback(projection.register_forward_hook(hold).remove)
        yield passed


def _detach(
    _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if given:
        return (given[0].detach(), *given[1:]), named
    return given, {**named, "hidden_states": named["hidden_states"].detach()}


def _holder(kept: dict[int, Any], layer: int) -> Callable[[nn.Module, Any, Any], None]:
    def hold(_: nn.Module, __: Any, output: Any) -> None:
        kept[layer] = output

    return hold


def _tail(
    model: Any, blocks: list[nn.Module], passed: _Passed, hidden: Tensor, taught: Lesson
) -> Tensor:
    """What the model makes of `hidden` after its last block: norm, unembedding, scale, cap.

    The model's own forward is run with blocks that give back what they gave before, so that no
    family needs to be told how its logits are made.
    """
    with ExitStack() as undo:
        for layer, block in enumerate(blocks):
            given = passed.blocks[layer]
            if layer == len(blocks) - 1:
                given = (hidden, *given[1:]) if isinstance(given, tuple) else hidden
            _replace_forward(block, given, undo)
        return lesson_logits(model, taught)


def _replace_forward(block: nn.Module, given: Any, undo: ExitStack) -> None:
    own = block.__dict__.get("forward")

    def restore() -> None:
        if own is None:
            block.__dict__.pop("forward", None)
        else:
            block.__dict__["forward"] = own

    undo.callback(restore)
    block.__dict__["forward"] = lambda *args, **kwargs: given


@torch.no_grad()
def _refuse_other_tail(
    model: Any, blocks: list[nn.Module], passed: _Passed, logits: Tensor, taught: Lesson
) -> None:
    """The last block's read-out must be the model's own output."""
    read = _tail(model, blocks, passed, _hidden(passed.blocks[len(blocks) - 1]), taught)
    largest = float(logits.abs().max())
    if math.isfinite(largest) and not torch.allclose(read, logits, atol=1e-4 * max(1.0, largest)):
        raise Refusal(
            "needed a model whose logits come from its last block's output, came one whose "
            f"read-out differs by {float((read - logits).abs().max()):.3g}",
            where=model_name(model),
        )
