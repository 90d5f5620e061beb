"""Fine-tuning on demonstrations, one step each, and the base weights back afterwards."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.linalg import vector_norm

from probes.finetune_loss import (
    Lesson,
    Losses,
    backward,
    cross_entropy,
    lesson_logits,
    training_attention,
)
from probes.finetune_recipe import (
    Batch,
    Diverged,
    LossTokens,
    Method,
    Recipe,
    StepNorm,
    lessons_of,
    refuse_recipe,
)
from probes.finetune_result import FineTuned, OnlineTokens, Step
from probes.finetune_weights import MOVING, Moving, trainable_copies
from probes.layer_causal import LayerLoss, Readout, layer_causal_backward
from probes.model_facts import model_name, the_module
from probes.projections import Tapped, tapped
from prompts.refusal import Refusal


def fine_tune(
    loaded: Any,
    demonstrations: Sequence[NDArray[np.int64]],
    answers: Sequence[slice],
    *,
    method: Method = "gd",
    rate: float,
    loss_tokens: LossTokens = "all",
    layer: int | None = None,
    step_norm: StepNorm = "matched",
    readout: Readout = "block",
    layer_loss: LayerLoss = "sum",
    batch: Batch = "one",
    matched_to: FineTuned | None = None,
    online: bool = False,
    record: Callable[[Step], None] | None = None,
) -> FineTuned:
    """One step of plain SGD on each demonstration, in their order, from the base weights.

    No momentum, decay or clipping; the loss is the mean next-token cross-entropy of the counted
    tokens: all but the first, or those of `answers`. `method`: "gd" moves weights and biases of
    the key and value projections of every attention layer and nothing else (arXiv 2212.10559,
    section 4); "whole" every parameter; "value-layer" the value matrix of `layer` (2310.08540);
    "lcgd" what "gd" moves, each layer by the loss of its own read-out (2311.07772): of the block's
    output or, by `readout`, of the attention output, added over layers or averaged.

    `step_norm` (lcgd only): "matched" gives each layer's step the norm of the same step of a "gd"
    run at this rate (`matched_to`, or one that is run first); "shared" takes the rate as it is,
    as published, though layer-causal gradients are far larger. `batch`: "whole" takes a single step
    down the mean of all demonstrations' gradients, in which their order is lost. `online`: steps
    hold what the tokens of their demonstration were before the step. `record` is called with each.

    When this returns or raises, the model has its own tensors, untouched. Raises `Diverged` when a
    loss is not finite, or is more above the base model's on the same demonstration than the loss of
    a uniform guess over the vocabulary.
    """
    module = the_module(loaded)
    recipe = Recipe(method, rate, loss_tokens, layer, step_norm, readout, layer_loss, batch)
    refuse_recipe(recipe, module)
    if online and batch == "whole":
        raise Refusal("needed one step a demonstration to see tokens before it, came batch 'whole'")
    lessons = lessons_of(demonstrations, answers, recipe)
    wanted = None
    if method == "lcgd" and step_norm == "matched":
        plain = matched_to or fine_tune(
            loaded, demonstrations, answers, rate=rate, loss_tokens=loss_tokens, batch=batch
        )
        wanted = _norms_of(plain, recipe, lessons)
    run = _Run(module, recipe, wanted, online, record)
    with torch.inference_mode(False), torch.enable_grad(), training_attention(module):
        return run.all(lessons)


@dataclass
class _Run:
    module: Any
    recipe: Recipe
    wanted: NDArray[np.float64] | None
    online: bool
    record: Callable[[Step], None] | None

    def all(self, lessons: list[Lesson]) -> FineTuned:
        began = time.perf_counter()
        moving = MOVING[self.recipe.method](self.module, self.recipe.layer)
        layers = tuple(sorted({one.layer for one in moving if one.layer is not None}))
        base = [self.loss(taught) for taught in lessons]
        whole = self.recipe.batch == "whole"
        batches = [lessons] if whole else [[taught] for taught in lessons]
        before = [float(np.mean(base))] if whole else base
        steps: list[Step] = []
        with trainable_copies(moving) as copies:
            for place, some in enumerate(batches):
                steps.append(self.one(place, some, before[place], moving, layers))
                if self.record is not None:
                    self.record(steps[-1])
            closing = self.loss(lessons[-1])
            self.refuse_divergence(len(steps), closing, base[-1])
        return FineTuned(
            model=self.module,
            recipe=self.recipe,
            weights=copies,
            layers=layers,
            steps=tuple(steps),
            base_losses=np.array(base),
            closing_loss=closing,
            demonstrations=tuple(taught.ids.numpy() for taught in lessons),
            seconds=time.perf_counter() - began,
        )

    def one(
        self,
        place: int,
        some: list[Lesson],
        base: float,
        moving: list[Moving],
        layers: tuple[int, ...],
    ) -> Step:
        gradients = GRADIENTS[self.recipe.method]
        with tapped(self.module) if self.online else nullcontext() as found:
            losses = _mean([gradients(self.module, taught, self.recipe) for taught in some])
        self.refuse_divergence(place, losses.mean, base)
        # Gradients add up over the lessons, and the step is down their mean.
        factors = self.factors(place, moving, layers, self.recipe.rate / len(some))
        norms = _move(moving, factors)
        other = norms.pop(None, 0.0)
        return Step(
            demonstration=place,
            loss=losses.mean,
            layer_losses=losses.by_layer,
            update_norms=np.array([norms[layer] for layer in layers]),
            other_norm=other,
            online=None if found is None else _online(found),
        )

    def factors(
        self, place: int, moving: list[Moving], layers: tuple[int, ...], rate: float
    ) -> dict[int | None, float]:
        """What each layer's gradient is multiplied by: the rate, or what gives the wanted norm."""
        factors: dict[int | None, float] = dict.fromkeys((*layers, None), rate)
        if self.wanted is not None:
            for layer, wanted in zip(layers, self.wanted[place], strict=True):
                own = math.sqrt(sum(_square(_gradient(m)) for m in moving if m.layer == layer))
                factors[layer] = wanted / own if own > 0 else 0.0
        return factors

    @torch.no_grad()
    def loss(self, taught: Lesson) -> float:
        """Of the weights as they are."""
        return float(cross_entropy(lesson_logits(self.module, taught), taught))

    def refuse_divergence(self, step: int, loss: float, base: float) -> None:
        """Worse than the base model by more than the whole loss of a uniform guess."""
        most = base + math.log(self.module.get_input_embeddings().weight.shape[0])
        if math.isfinite(loss) and loss <= most:
            return
        raise Diverged(
            f"fine-tuning diverged: needed a loss of at most {most:.4g} nats, came {loss:.4g} "
            f"after {step} steps at rate {self.recipe.rate:g}; a lower rate may do",
            where=model_name(self.module),
            step=step,
            loss=loss,
        )


def _mean(losses: list[Losses]) -> Losses:
    by_layer = [one.by_layer for one in losses if one.by_layer is not None]
    mean = float(np.mean([one.mean for one in losses]))
    return Losses(mean, np.mean(by_layer, axis=0) if by_layer else None)


def _plain_backward(module: Any, taught: Lesson, recipe: Recipe) -> Losses:
    return backward(module, taught)


def _layer_causal(module: Any, taught: Lesson, recipe: Recipe) -> Losses:
    return layer_causal_backward(
        module, taught, readout=recipe.readout, layer_loss=recipe.layer_loss
    )


GRADIENTS: Mapping[str, Callable[[Any, Lesson, Recipe], Losses]] = MappingProxyType(
    {
        "gd": _plain_backward,
        "lcgd": _layer_causal,
        "whole": _plain_backward,
        "value-layer": _plain_backward,
    }
)


def _gradient(moving: Moving) -> Tensor | None:
    gradient = moving.parameter.grad
    return None if gradient is None else moving.part(gradient)


def _square(tensor: Tensor | None) -> float:
    return 0.0 if tensor is None else float(vector_norm(tensor, dtype=torch.float64)) ** 2


def _move(moving: list[Moving], factors: Mapping[int | None, float]) -> dict[int | None, float]:
    """Takes the step, and forgets the gradients; the norm of what changed, by layer.

    The norm is that of the change which the weights' number type let through.
    """
    squares: dict[int | None, float] = {}
    for one in moving:
        gradient = _gradient(one)
        square = 0.0
        if gradient is not None:
            before = one.part(one.parameter.data).clone()
            one.step(gradient * factors[one.layer])
            square = _square(one.part(one.parameter.data) - before)
        squares[one.layer] = squares.get(one.layer, 0.0) + square
        one.parameter.grad = None
    return {layer: math.sqrt(square) for layer, square in squares.items()}


def _online(found: Tapped) -> OnlineTokens:
    return OnlineTokens(
        *(
            np.stack([_array(kept[layer][0]) for layer in sorted(kept)])
            for kept in (found.queries, found.inputs)
        )
    )


def _array(tensor: Tensor) -> NDArray[np.floating]:
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).cpu().numpy()


def _norms_of(plain: FineTuned, recipe: Recipe, lessons: list[Lesson]) -> NDArray[np.float64]:
    """The step norms (step, layer) of plain descent, refused where it learnt something else."""
    same = plain.recipe[:3] == ("gd", recipe.rate, recipe.loss_tokens)
    same = same and plain.recipe.batch == recipe.batch
    learnt = [taught.ids.numpy() for taught in lessons]
    if not same or not plain.learnt(learnt):
        raise Refusal(
            "needed the norms of a 'gd' run at the same rate, on the same demonstrations in the "
            f"same order, came {plain.recipe!r} on {len(plain.demonstrations)} demonstrations"
        )
    return plain.update_norms
