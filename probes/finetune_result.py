"""What a fine-tuning leaves: its steps, and weights to put in place of the base model's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.finetune_recipe import Recipe
from probes.finetune_weights import Weights, in_place


class OnlineTokens(NamedTuple):
    """A demonstration's tokens as the weights before its own step make them, float32.

    `queries` (layer, token, head, dim): before rotation. `inputs` (layer, token, width): what the
    key and value projections read.
    """

    queries: NDArray[np.floating]
    inputs: NDArray[np.floating]


class Step(NamedTuple):
    """One step. `loss`: of its demonstration before the step, mean over counted tokens, in nats (of
    a step on all demonstrations: mean over them).

    `layer_losses` (layer,): of each layer's read-out, None but for `lcgd`. `update_norms`
    (layer,): Euclidean norm of the change of the layer's moving weights; `other_norm`: of those
    that belong to no layer. `online`: None where not asked.
    """

    demonstration: int
    loss: float
    layer_losses: NDArray[np.float64] | None
    update_norms: NDArray[np.float64]
    other_norm: float
    online: OnlineTokens | None


@dataclass(frozen=True, eq=False)
class FineTuned:
    """What fine-tuning made: weights that can be put in place of the base model's, and its steps.

    `layers`: the model's own index of each entry of `update_norms`. `base_losses` (demonstration,):
    of every one by the base weights. `closing_loss`: of the last
    demonstration, after the last step. `demonstrations`: the tokens that were learnt, in order.
    """

    model: Any
    recipe: Recipe
    weights: Weights
    layers: tuple[int, ...]
    steps: tuple[Step, ...]
    base_losses: NDArray[np.float64]
    closing_loss: float
    demonstrations: tuple[NDArray[np.int64], ...]
    seconds: float

    @property
    def losses(self) -> NDArray[np.float64]:
        """Loss of each demonstration before its step (step,), in nats."""
        return np.array([step.loss for step in self.steps])

    @property
    def update_norms(self) -> NDArray[np.float64]:
        """Norm of each step's change (step, layer)."""
        return np.array([step.update_norms for step in self.steps])

    def learnt(self, demonstrations: Sequence[NDArray[np.int64]]) -> bool:
        """Whether these, in this order, are what was learnt."""
        ours = self.demonstrations
        return len(ours) == len(demonstrations) and all(map(np.array_equal, ours, demonstrations))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the model has the fine-tuned weights; outside it has its own."""
        with in_place(self.weights):
            yield
