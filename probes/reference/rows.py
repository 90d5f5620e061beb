"""Rows of a reference model over contexts of numbers, as those of a language model over text."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from probes.capture import capture
from probes.reference.attention import ReferenceModel


class PlantedRows(NamedTuple):
    """`scores` float64 (context, query, layer, head, example), `predictions` (context, query)."""

    scores: NDArray[np.float64]
    predictions: NDArray[np.float64]


def planted_rows(
    model: ReferenceModel,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    queries: NDArray[np.float64],
) -> PlantedRows:
    """Scores from each query to each example, by the capture function of language models.

    x (context, example, feature), y (context, example), queries (context, query, feature).
    """
    tokens = model.tokens(*(torch.as_tensor(values) for values in (x, y, queries)))
    asked = torch.arange(x.shape[1], tokens.shape[1])
    captured = capture(model, tokens, asked)
    return PlantedRows(
        captured.scores.permute(0, 3, 1, 2, 4).numpy(),
        captured.logits[..., 0].numpy(),
    )
