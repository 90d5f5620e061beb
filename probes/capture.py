"""Scores and weights of a few query positions, from one forward of a language model."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from probes.attention import Recorder, recording
from probes.forward import Forward, eager_forward, recorded_logits
from probes.model_facts import Path, attention_path, model_name, the_module
from probes.scores import LayerRows
from prompts.refusal import Refusal

# Its recurrent layers take no mask (transformers 5.24).
_PADDING_ENTERS = ("recurrent_gemma",)


@dataclass(frozen=True)
class Capture:
    """Attention from the asked positions, and the logits there.

    `scores`, `weights`: float32 (batch, layer, head, query, key), keys counted from the first
    token of the prompt. Scores are what enters the softmax (scaled; softcap and position bias
    applied) and -inf at keys that are hidden by the mask or outside the layer's window; weights
    are 0 there. Neither holds NaN. On the "eager" path scores are log-weights, right up to a
    constant a row. `sink` (batch, layer, head, query): mass on a learned sink, None without.
    `logits` (batch, query, vocabulary). `layers`: the model's own index of each captured layer.
    """

    scores: Tensor
    weights: Tensor
    sink: Tensor | None
    logits: Tensor
    layers: tuple[int, ...]
    path: Path


def keep_all(rows: LayerRows) -> LayerRows:
    """Every key of the asked rows, on the CPU, from the prompt's first token on."""
    missing = (rows.first_key, 0)
    scores = nn.functional.pad(rows.scores, missing, value=-torch.inf)
    sink = None if rows.sink is None else rows.sink.cpu()
    return LayerRows(scores.cpu(), nn.functional.pad(rows.weights, missing).cpu(), sink, 0)


def stack_layers(forward: Forward, path: Path) -> Capture:
    """A capture from what `keep_all` kept of each layer."""
    kept: dict[int, LayerRows] = forward.kept
    layers = tuple(sorted(kept))
    sinks = [sink for i in layers if (sink := kept[i].sink) is not None]
    return Capture(
        scores=torch.stack([kept[i].scores for i in layers], 1),
        weights=torch.stack([kept[i].weights for i in layers], 1),
        sink=torch.stack(sinks, 1) if sinks else None,
        logits=forward.logits.cpu(),
        layers=layers,
        path=path,
    )


@runtime_checkable
class Reference(Protocol):
    """A small model of known mechanism, whose layers give their rows to the active recorder.

    It reads real-valued tokens (batch, token, dim), `examples` of which come first, and returns
    (batch, token, output). `reference_layers`: indices of its attention layers.
    """

    examples: int
    reference_layers: tuple[int, ...]

    def __call__(self, tokens: Tensor) -> Tensor: ...


@torch.inference_mode()
def _capture_reference(model: Reference, tokens: Tensor, rows: Tensor) -> Capture:
    recorder = Recorder(rows, 0, keep_all)
    with recording(recorder):
        output = model(tokens)
    return stack_layers(Forward(recorder.kept, output[:, rows]), "reference")


def _rows(ids: Tensor, positions: Tensor, past: int, where: str) -> Tensor:
    rows = torch.as_tensor(positions, dtype=torch.long) - past
    if rows.numel() == 0 or int(rows.min()) < 0 or int(rows.max()) >= ids.shape[1]:
        raise Refusal(
            f"needed positions from {past} to {past + ids.shape[1] - 1}, "
            f"came {torch.as_tensor(positions).tolist()!r}",
            where=where,
        )
    return rows


def _past_tokens(cache: Any, where: str) -> int:
    if getattr(cache, "is_compileable", False):
        raise Refusal(f"needed a cache that grows, came {type(cache).__name__!r}", where=where)
    return 0 if cache is None else int(cache.get_seq_length())


def _refuse_left_padding(module: Any, mask: Tensor | None) -> None:
    if mask is None or module.config.model_type not in _PADDING_ENTERS:
        return
    if bool((mask[:, 0] == 0).any()):
        raise Refusal(
            f"needed prompts padded on the right: {module.config.model_type!r} reads padding on "
            "the left into its recurrent state",
            where=model_name(module),
        )


def capture(
    model: Any,
    ids: Tensor,
    positions: Tensor,
    *,
    cache: Any = None,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Capture:
    """Scores, weights and logits at the asked positions of a token batch.

    `model`: a loaded model or its module. `ids` (batch, token). `positions` (query,) or, for
    padded batches, (batch, query); counted from the first token of the prompt, cached tokens
    included. `cache`: keys and values of earlier tokens; it grows by `ids`. `attention_mask`
    (batch, token): 0 at padding. `position_ids` (batch, token): each prompt's own places, needed
    for left-padded prompts by most families, refused where a family takes none (BLOOM, MPT count
    from the mask). Memory grows with layers x heads x asked positions x tokens.
    A reference model takes its tokens as `ids`; its keys are the examples, its weights the scores
    (no softmax), its logits what it returns.
    """
    module = the_module(model)
    if isinstance(module, Reference):
        return _capture_reference(module, ids, _rows(ids, positions, 0, type(module).__name__))
    path = attention_path(module)
    _refuse_left_padding(module, attention_mask)
    past = _past_tokens(cache, model_name(module))
    rows = _rows(ids, positions, past, model_name(module))
    if path == "eager":
        if cache is not None:
            raise Refusal("needed a whole prompt on the eager path", where=model_name(module))
        masks = {"attention_mask": attention_mask, "position_ids": position_ids}
        forward = eager_forward(module, ids, rows, keep=keep_all, **masks)
        return stack_layers(forward, path)
    recorder = Recorder(rows, past, keep_all)
    logits = recorded_logits(
        module,
        ids,
        rows,
        recorder,
        cache=cache,
        attention_mask=attention_mask,
        position_ids=position_ids,
    )
    return stack_layers(Forward(recorder.kept, logits), path)
