"""Anchors: what a sound copy of a registered model says, asked of the copy that was loaded.

A file can be whole and still be read wrongly: query and key rows in the wrong order, a tokenizer
that splits otherwise. The log-probabilities after a fixed prompt show it.
"""

from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from probes.registry import BUILT_IN, REGISTRY, Anchor, BuiltInModel, PackagedModel
from prompts.refusal import Refusal

# How far rounding alone may move a log-probability, in nats, beyond the anchor's own tolerance.
_ROUNDING = {"float32": 0.0, "float16": 0.05, "bfloat16": 0.25}


class AnchorReading(NamedTuple):
    """A next token's log-probability (nats): as registered, and as the loaded model gives it."""

    continuation: str
    expected: float
    found: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the two are as near as they must be."""
        return abs(self.found - self.expected) <= self.tolerance


def read_anchor(
    model: PreTrainedModel, tokenizer: Any, anchor: Anchor, *, dtype: str = "float32"
) -> tuple[AnchorReading, ...]:
    """The model's log-probabilities of the anchor's next tokens."""
    ids = tokenizer(anchor.prompt, return_tensors="pt").input_ids.to(model.device)
    with torch.no_grad():
        log_probabilities = model(ids).logits[0, -1].float().log_softmax(-1)
    tolerance = anchor.tolerance + _ROUNDING[dtype]
    return tuple(
        AnchorReading(text, expected, _of(log_probabilities, tokenizer, text), tolerance)
        for text, expected in anchor.log_probabilities.items()
    )


def anchor_of(file_hash: str) -> Anchor | None:
    """The anchor registered for a weight file, by its SHA-256; None where there is none."""
    every: tuple[PackagedModel | BuiltInModel, ...] = (*REGISTRY.values(), *BUILT_IN.values())
    for known in every:
        if known.sha256 == file_hash:
            return known.anchor
    return None


def refuse_off_anchor(
    model: PreTrainedModel, tokenizer: Any, *, file_hash: str, dtype: str
) -> None:
    """Refuses a registered model that does not say what a sound copy says."""
    anchor = anchor_of(file_hash)
    if anchor is None:
        return
    for reading in read_anchor(model, tokenizer, anchor, dtype=dtype):
        if not reading.holds:
            raise Refusal(
                f"the model was read wrongly: log-probability of {reading.continuation!r} after "
                f"{anchor.prompt!r} is {reading.found:.3f}, expected {reading.expected:.3f}"
            )


def _of(log_probabilities: torch.Tensor, tokenizer: Any, text: str) -> float:
    ids = tokenizer(text, add_special_tokens=False).input_ids
    # A tokenizer that splits the word does not know it as the registered one does.
    return float(log_probabilities[ids[0]]) if len(ids) == 1 else float("nan")
