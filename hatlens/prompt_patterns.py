"""Token-by-token attention patterns of any prompt, from a model."""

from collections.abc import Sequence
from typing import Any

import torch

from hatlens.pattern_shapes import Patterns
from probes.capture import capture
from probes.head_names import parse_heads
from probes.head_values import head_grid
from probes.models import load_model
from prompts.refusal import Refusal

NOTE = "rows and columns are the prompt's tokens; a row sums to 1 where the layer has no sink"


def patterns(model: Any, text: str, *, heads: Sequence[Any] = ()) -> Patterns:
    """Weights of every token of a text on every earlier one, for some heads (all without names).

    `model`: a name as the command takes it, or a loaded model. `heads`: names as `L3H5`, `(3, 5)`,
    `L3` for a whole layer. Memory grows with the square of the text's length.
    """
    loaded = load_model(model) if isinstance(model, str) else model
    grid = head_grid(loaded)
    chosen = parse_heads(heads, grid) if heads else grid.all()
    ids = loaded.tokenizer(text)["input_ids"]
    if not ids:
        raise Refusal(f"needed a text of at least one token, came {text!r}")
    found = capture(loaded, torch.tensor([ids]), torch.arange(len(ids)))
    places = [found.layers.index(head.layer) for head in chosen]
    weights = found.weights[0, places, [head.head for head in chosen]]
    tokens = [loaded.tokenizer.decode([token]) for token in ids]
    return Patterns(tokens, weights.numpy(), chosen, NOTE)
