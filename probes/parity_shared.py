"""The gate's last part: prompts that share a prefix, and their answers, equal whole prompts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probes.attention import Recorder
from probes.blocks import Ask, Block, run_blocks
from probes.capture import Capture, keep_all, stack_layers
from probes.forward import Forward, recorded_logits
from probes.model_facts import Sharing, forget_lengths, input_device
from probes.parity_checks import TOLERANCES, logit_difference, weight_difference
from probes.rows import Tokens

_MORE_TOKENS = 2


class SharedDifferences(NamedTuple):
    """Largest differences to whole prompts: of weights, and of logits as an answer is read."""

    weight: float
    continued: float


def shared_differences(
    model: Any, tokenized: Tokens, whole: Capture, how: Sharing
) -> SharedDifferences:
    """Run the queries of `whole` as a study runs them; refuses what differs from whole prompts.

    Where suffixes can be packed, both ways to share are run: which one a study takes depends on
    its memory. Each query is then given two more tokens, its likeliest ones, one by one.
    """
    prefix = torch.as_tensor(tokenized.prefix, dtype=torch.long)
    suffixes = torch.as_tensor(tokenized.suffixes[: len(whole.weights)], dtype=torch.long)
    ask = Ask(prefix, suffixes, None, keep_all)
    ids = torch.cat([prefix.expand(len(suffixes), -1), suffixes], 1)
    ways: tuple[Sharing, ...] = ("packed", "cached") if how == "packed" else (how,)
    found = [_of_way(model, ask, ids, whole, way) for way in ways]
    return SharedDifferences(*map(max, zip(*found, strict=True)))


def _of_way(model: Any, ask: Ask, ids: Tensor, whole: Capture, how: Sharing) -> SharedDifferences:
    block = next(run_blocks(model, ask, how=how))
    ours = stack_layers(Forward(block.kept, block.logits[:, None]), whole.path)
    last, tolerance = whole.weights[:, :, :, -1:], TOLERANCES[model.dtype]
    weight = weight_difference(model, ours, last, "whole prompts' ones", tolerance.weight)
    said = f"answers read on ({how}) equal to whole prompts' ones"
    continued = [
        logit_difference(
            model, logits, _whole_logits(model, longer, whole), said, tolerance.relative
        )
        for longer, logits in _continued(block, ids)
    ]
    return SharedDifferences(weight, max(continued))


def _continued(block: Block, ids: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The prompts with one more token each, and the logits (prompt, word) behind it; and so on."""
    assert block.continuation is not None
    logits = block.logits
    for _ in range(_MORE_TOKENS):
        tokens = logits.argmax(-1).cpu()
        ids = torch.cat([ids, tokens[:, None]], 1)
        logits = block.continuation.next_logits(tokens)
        yield ids, logits.cpu()


@torch.inference_mode()
def _whole_logits(model: Any, ids: Tensor, whole: Capture) -> Tensor:
    """Logits (prompt, word) behind whole prompts; at another length positions may be others."""
    if whole.path == "fast":
        last = torch.tensor([ids.shape[1] - 1])
        return recorded_logits(model, ids, last, Recorder(last, 0, None))[:, 0].cpu()
    forget_lengths(model)
    logits: Tensor = model(input_ids=ids.to(input_device(model)), use_cache=False).logits
    return logits[:, -1].float().cpu()
