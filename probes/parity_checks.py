"""What the gate compares, and how it refuses: by layer, head and figure."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from probes.capture import Capture
from probes.model_facts import attention_layers, model_name
from probes.shape import model_shape
from prompts.refusal import Refusal


class Tolerance(NamedTuple):
    """Largest difference allowed: of weights, and of logits and scores over their largest size."""

    weight: float
    relative: float


# In half precision eager attention rounds scores that the fused kernel does not.
TOLERANCES = {
    torch.float64: Tolerance(1e-4, 1e-4),
    torch.float32: Tolerance(1e-4, 1e-4),
    torch.float16: Tolerance(0.03, 0.02),
    torch.bfloat16: Tolerance(0.15, 0.1),
}


def refuse_heads(model: Any, shapes: dict[int, tuple[int, int]]) -> None:
    """Refuse (query heads, key/value heads) by layer that are not the configuration's."""
    shape = model_shape(model.config)
    for layer, (heads, kv_heads) in shapes.items():
        if heads % kv_heads or heads != shape.heads:
            raise Refusal(
                f"needed {shape.heads} heads in whole groups over {shape.kv_heads} key/value "
                f"heads, came {heads} over {kv_heads}",
                where=f"{model_name(model)}, layer {layer}",
            )


def refuse_layers(model: Any, captured: Capture, found: dict[int, Tensor]) -> None:
    """Refuse other layers than those that hold attention, captured or in eager maps (`found`)."""
    wanted = attention_layers(model)
    for source, layers in (("captured", captured.layers), ("eager", tuple(sorted(found)))):
        if layers != wanted:
            differ = sorted(set(wanted) ^ set(layers))
            raise Refusal(
                f"needed {source} attention of {len(wanted)} layers, came {len(layers)}",
                where=f"{model_name(model)}, layer {differ[0]}",
            )


def refuse_future(model: Any, captured: Capture, rows: Tensor) -> None:
    """Refuse mass on keys behind the asked rows (query,)."""
    keys = torch.arange(captured.weights.shape[-1])
    future = captured.weights.masked_fill(keys <= rows[:, None], 0.0).sum(-1)
    if float(future.max()) > 0:
        _refuse_at(model, captured, future.amax(-1), "no mass on later tokens", 0.0)


def refuse_foreign_ids(model: Any, largest: int) -> None:
    """Refuse a token id for which the model has no embedding: its tokenizer is another's."""
    rows = len(model.get_input_embeddings().weight)
    if largest >= rows:
        raise Refusal(
            f"needed token ids below {rows}, the model's embeddings, came {largest}: "
            "the tokenizer is another model's",
            where=model_name(model),
        )


def _refuse_at(model: Any, captured: Capture, worst: Tensor, needed: str, most: float) -> None:
    """Refuse naming the first layer at fault, since later ones read what it made, and its head.

    `worst` (batch, layer, head) holds the largest difference of each.
    """
    by_head = worst.amax(0)
    layer = int((by_head.amax(1) > most).nonzero()[0])
    head = int(by_head[layer].argmax())
    raise Refusal(
        f"needed {needed} (at most {most:g}), came {float(by_head[layer, head]):.3g}",
        where=f"{model_name(model)}, layer {captured.layers[layer]}, head {head}",
    )


def weight_difference(
    model: Any, captured: Capture, reference: Tensor, what: str, most: float
) -> float:
    """Largest difference of weights; refuses one above `most`, NaN included."""
    differences = (captured.weights - reference).abs().nan_to_num(torch.inf)
    worst = differences.amax((-1, -2))
    if not float(worst.max()) <= most:
        _refuse_at(model, captured, worst, f"captured weights equal to {what}", most)
    return float(worst.max())


def logit_difference(model: Any, ours: Tensor, reference: Tensor, what: str, most: float) -> float:
    """Largest difference of logits; refuses one above `most` of the largest logit."""
    difference = float((ours - reference).abs().nan_to_num(torch.inf).max())
    allowed = most * max(1.0, float(reference.abs().max()))
    if not difference <= allowed:
        raise Refusal(
            f"needed logits of {what} (at most {allowed:.2g}), came {difference:.3g}",
            where=model_name(model),
        )
    return difference
