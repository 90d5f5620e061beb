"""How a fine-tuning learns, checked before it starts."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.finetune_loss import Lesson, lesson
from probes.finetune_weights import MOVING
from probes.layer_causal import LayerLoss, Readout
from probes.model_facts import model_name
from prompts.refusal import Refusal, unknown_name

Method = Literal["gd", "lcgd", "whole", "value-layer"]
LossTokens = Literal["all", "label"]
StepNorm = Literal["matched", "shared"]
Batch = Literal["one", "whole"]


class Diverged(Refusal):
    """Fine-tuning whose loss left all bounds; the base weights are back.

    `step`: the demonstration, from 0, whose loss it was (their number: the loss after the last
    step). `loss`: that loss in nats.
    """

    def __init__(self, sentence: str, *, where: str, step: int, loss: float) -> None:
        super().__init__(sentence, where=where)
        self.step, self.loss = step, loss


class Recipe(NamedTuple):
    """How a fine-tuning learns; see `fine_tune`."""

    method: str
    rate: float
    loss_tokens: str
    layer: int | None
    step_norm: str
    readout: Readout
    layer_loss: LayerLoss
    batch: Batch = "one"


def refuse_recipe(recipe: Recipe, module: Any) -> None:
    if recipe.method not in MOVING:
        raise unknown_name("way of fine-tuning", recipe.method, MOVING)
    if not (math.isfinite(recipe.rate) and recipe.rate > 0):
        raise Refusal(f"needed a rate above 0, came {recipe.rate!r}")
    for name, value, known in (
        ("choice of loss tokens", recipe.loss_tokens, ("all", "label")),
        ("step norm", recipe.step_norm, ("matched", "shared")),
        ("read-out", recipe.readout, ("block", "attention")),
        ("layer loss", recipe.layer_loss, ("sum", "mean")),
        ("batch", recipe.batch, ("one", "whole")),
    ):
        if value not in known:
            raise unknown_name(name, value, known)
    if any(parameter.is_meta for parameter in module.parameters()):
        raise Refusal(
            "needed a model whose weights are in memory, not offloaded", where=model_name(module)
        )


def lessons_of(
    demonstrations: Sequence[NDArray[np.int64]], answers: Sequence[slice], recipe: Recipe
) -> list[Lesson]:
    if not demonstrations or len(demonstrations) != len(answers):
        raise Refusal(
            "needed demonstrations, each with the place of its label, came "
            f"{len(demonstrations)} with {len(answers)} labels"
        )
    lessons = []
    for place, (tokens, answer) in enumerate(zip(demonstrations, answers, strict=True)):
        counted = answer if recipe.loss_tokens == "label" else slice(None)
        taught = lesson(tokens, counted)
        if not taught.counted.any():
            raise Refusal(
                f"needed a token after the first one to learn, came {len(tokens)} tokens with "
                f"the label at {answer.start}:{answer.stop}",
                where=f"demonstration {place}",
            )
        lessons.append(taught)
    return lessons
