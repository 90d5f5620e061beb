"""How prompts that were just run go on, token by token."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from probes.attention import NAME, Recorder, recording
from probes.model_facts import (
    attention_implementation,
    cache_argument,
    forget_lengths,
    input_device,
    keeps_few_logits,
)
from probes.shared_cache import CachedRecorder, SharedLayer


class Continuation(Protocol):
    """A batch of prompts that can be given one more token each."""

    model: Any

    def next_logits(self, tokens: Tensor) -> Tensor:
        """Logits (prompt, word) after one more token each, (prompt,)."""
        ...


@dataclass
class CachedContinuation:
    """Goes on from a cache, which grows."""

    model: Any
    cache: Any
    length: int

    @torch.inference_mode()
    def next_logits(self, tokens: Tensor) -> Tensor:
        row = torch.tensor([0])
        recorder: Recorder
        if isinstance(self.cache.layers[0], SharedLayer):
            recorder = CachedRecorder(row, self.length, None, cache=self.cache)
        else:
            recorder = Recorder(row, self.length, None)
        arguments = {cache_argument(self.model): self.cache, "use_cache": True}
        ids = tokens[:, None].to(input_device(self.model))
        with attention_implementation(self.model, NAME), recording(recorder):
            logits: Tensor = self.model(input_ids=ids, **arguments).logits
        self.length += 1
        return logits[:, -1].float()


@dataclass
class WholeContinuation:
    """Runs each prompt from its first token again, where nothing may be shared."""

    model: Any
    ids: Tensor

    @torch.inference_mode()
    def next_logits(self, tokens: Tensor) -> Tensor:
        self.ids = torch.cat([self.ids, tokens[:, None].to(self.ids.device)], 1)
        ids = self.ids.to(input_device(self.model))
        forget_lengths(self.model)
        few = {"logits_to_keep": 1} if keeps_few_logits(self.model) else {}
        logits: Tensor = self.model(input_ids=ids, use_cache=False, **few).logits
        return logits[:, -1].float()
