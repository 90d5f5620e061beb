"""The loss of one demonstration, and the gradients that it leaves in a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.model_facts import (
    attention_implementation,
    attention_path,
    forget_lengths,
    input_device,
    text_config,
)


class Lesson(NamedTuple):
    """A demonstration as it is learnt: tokens (token,), and which of them the loss counts."""

    ids: Tensor
    counted: Tensor


class Losses(NamedTuple):
    """Mean next-token cross-entropy in nats, and each layer's own where layers have one."""

    mean: float
    by_layer: NDArray[np.float64] | None = None


def lesson(tokens: NDArray[np.int64], counted: slice) -> Lesson:
    """The first token is never counted: nothing predicts it."""
    ids = torch.as_tensor(np.asarray(tokens), dtype=torch.long)
    chosen = torch.zeros(len(ids), dtype=torch.bool)
    chosen[counted] = True
    chosen[:1] = False
    return Lesson(ids, chosen)


def cross_entropy(logits: Tensor, taught: Lesson) -> Tensor:
    """Mean cross-entropy of the counted tokens, each from the logits (token, word) before it."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    places = taught.counted.nonzero()[:, 0].to(logits.device)
    targets = taught.ids.to(logits.device)[places]
    return nn.functional.cross_entropy(logits[places - 1], targets)


@contextmanager
def training_attention(model: Any) -> Iterator[None]:
    """Runs the block under attention that gradients pass through and that knows its rule."""
    if attention_path(model) == "eager":
        yield
        return
    capped = getattr(text_config(model), "attn_logit_softcapping", None) is not None
    fused = model._supports_sdpa and not capped
    with attention_implementation(model, "sdpa" if fused else "eager"):
        yield


def lesson_logits(model: Any, taught: Lesson) -> Tensor:
    """Logits (token, word) of a demonstration by itself."""
    forget_lengths(model)
    ids = taught.ids[None].to(input_device(model))
    logits: Tensor = model(input_ids=ids, use_cache=False).logits
    return logits[0]


def backward(model: Any, taught: Lesson) -> Losses:
    """The loss of the model's own output; its gradients are left in the weights."""
    loss = cross_entropy(lesson_logits(model, taught), taught)
    loss.backward()  # type: ignore[no-untyped-call]
    return Losses(float(loss.detach()))
