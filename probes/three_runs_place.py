"""What stands before the queries of a run, run once where all can share it."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.attention import Recorder
from probes.forward import recorded_logits
from probes.model_facts import (
    attention_path,
    cache_argument,
    forget_lengths,
    input_device,
    model_name,
    sharing,
)
from probes.prefix import Prefix, expanded, run_prefix
from probes.projections import Tapped, tapped
from probes.run_records import CachedRunRecorder, LayerScores, RunRecorder, Seen
from probes.shape import model_shape
from probes.shared_cache import CachedRecorder, can_share_layers, shared_cache
from prompts.refusal import Refusal

# Families that bypass the attention interface, whose caches hold what their layers attend to,
# and whose scores are these factors times q.k of what is projected: no rotation, and ALiBi left
# out, since it is no part of q.k.
_SCALED = ("xglm", "bloom", "mpt")
_UNSCALED = ("gpt_neo",)


class Place(NamedTuple):
    """Tokens before the queries: in a cache (`prefix`), or run with each query (`inline`).

    `length`: how many they are, the first `skip` of them <bos>. `shift`: how much higher all
    position ids are. `keys`: the cached tokens' keys by layer, where no recorder sees them.
    """

    model: Any
    inline: Tensor
    prefix: Prefix | None
    keys: dict[int, Tensor]
    length: int
    skip: int
    shift: int


def ready(model: Any, before: NDArray[np.int64], *, skip: int, shift: int, longest: int) -> Place:
    """The place of queries of at most `longest` tokens behind the tokens `before`.

    Refuses what does not fit the window, and a shift of a model that takes no position ids.
    """
    ids = torch.as_tensor(np.asarray(before), dtype=torch.long)
    _refuse_positions(model, len(ids) + longest + shift, shift)
    _refuse_eager(model)
    place = Place(model, ids, None, {}, len(ids), skip, shift)
    if len(ids) <= max(1, skip) or shift or not _shares(model, len(ids) + longest):
        return place
    if attention_path(model) == "fast":
        prefix, _ = run_prefix(model, ids, positions=None, keep=lambda rows: None)
        return place._replace(inline=ids[:0], prefix=prefix)
    with tapped(model, last=True) as found:
        prefix = _eager_prefix(model, ids)
    return place._replace(inline=ids[:0], prefix=prefix, keys=found.keys)


def _shares(model: Any, length: int) -> bool:
    if attention_path(model) == "eager":
        return True
    return sharing(model, length) != "whole"


def _refuse_positions(model: Any, length: int, shift: int) -> None:
    window = model_shape(model.config).context_window
    if window is not None and length > window:
        raise Refusal(
            f"needed prompts of at most {window} tokens, came one of {length}",
            where=model_name(model),
        )
    if shift and "position_ids" not in inspect.signature(model.forward).parameters:
        raise Refusal(
            "needed a model that takes position ids to shift them, came "
            f"{model.config.model_type!r}; a neutral prefix of equal length serves any model",
            where=model_name(model),
        )


def _refuse_eager(model: Any) -> None:
    kind = model.config.model_type
    if attention_path(model) == "eager" and kind not in (*_SCALED, *_UNSCALED):
        raise Refusal(
            f"needed a family whose scores can be read before its softmax, came {kind!r}, which "
            f"bypasses the attention interface; of those {', '.join((*_SCALED, *_UNSCALED))} can",
            where=model_name(model),
        )


@torch.inference_mode()
def _eager_prefix(model: Any, ids: Tensor) -> Prefix:
    output = model(input_ids=ids[None].to(input_device(model)), use_cache=True)
    return Prefix(model, len(ids), output[cache_argument(model)])


def logits_of(place: Place, ids: Tensor, rows: Tensor) -> Tensor:
    """Logits (batch, row, word) of queries `ids` (batch, token) at `rows` of their tokens."""
    if attention_path(place.model) == "eager":
        return _eager_logits(place, ids, rows)
    last = torch.tensor([ids.shape[1] - 1])
    cache = _cache_for(place, len(ids))
    if place.prefix is None:
        return _fast_logits(place, ids, rows, Recorder(last, 0, None), cache)
    if can_share_layers(place.prefix.cache):
        recorder: Recorder = CachedRecorder(last, place.length, None, cache=cache)
    else:
        recorder = Recorder(last, place.length, None)
    return _fast_logits(place, ids, rows, recorder, cache)


def seen_at_last(place: Place, ids: Tensor, rows: Tensor, *, own: int) -> tuple[Seen, Tensor]:
    """What the last token of each query saw and gave, and logits at `rows`.

    `own`: how many of the tokens, the last ones, are the query's own.
    """
    with tapped(place.model, last=True) as found:
        if attention_path(place.model) == "eager":
            logits = _eager_logits(place, ids, rows)
            kept = _kept_of_taps(place, found, own)
        else:
            recorder, cache = _recorder(place, ids, own)
            logits = _fast_logits(place, ids, rows, recorder, cache)
            kept = recorder.kept
    before = place.length + ids.shape[1] - own
    return Seen(found, kept, own, before, place.skip), logits


def _recorder(place: Place, ids: Tensor, own: int) -> tuple[Recorder, Any]:
    last = torch.tensor([ids.shape[1] - 1])
    cache = _cache_for(place, len(ids))
    if place.prefix is None:
        return RunRecorder(last + place.length, 0, None, own=own), cache
    if can_share_layers(place.prefix.cache):
        return CachedRunRecorder(last, place.length, None, cache=cache, own=own), cache
    return RunRecorder(last, place.length, None, own=own), cache


def _cache_for(place: Place, count: int) -> Any:
    if place.prefix is None:
        return None
    cache = place.prefix.cache
    if attention_path(place.model) == "fast" and can_share_layers(cache):
        return shared_cache(cache)
    return expanded(cache, count)


def _whole(place: Place, ids: Tensor) -> Tensor:
    return torch.cat([place.inline.expand(len(ids), -1), ids], 1)


def _masks(place: Place, whole: Tensor) -> dict[str, Tensor]:
    """Position ids where they are shifted; a mask of ones says that the batch is not packed."""
    if not place.shift:
        return {}
    positions = torch.arange(whole.shape[1]) + place.shift
    return {
        "position_ids": positions.expand(len(whole), -1),
        "attention_mask": torch.ones_like(whole),
    }


def _fast_logits(place: Place, ids: Tensor, rows: Tensor, recorder: Recorder, cache: Any) -> Tensor:
    whole = _whole(place, ids)
    rows = rows + len(place.inline)
    return recorded_logits(place.model, whole, rows, recorder, cache=cache, **_masks(place, whole))


@torch.inference_mode()
def _eager_logits(place: Place, ids: Tensor, rows: Tensor) -> Tensor:
    model, whole = place.model, _whole(place, ids)
    device = input_device(model)
    arguments: dict[str, Any] = {n: x.to(device) for n, x in _masks(place, whole).items()}
    cache = _cache_for(place, len(ids))
    arguments["use_cache"] = cache is not None
    if cache is not None:
        arguments[cache_argument(model)] = cache
    forget_lengths(model)
    logits: Tensor = model(input_ids=whole.to(device), **arguments).logits
    return logits[:, (rows + len(place.inline)).to(logits.device)].float()


def _kept_of_taps(place: Place, found: Tapped, own: int) -> dict[int, LayerScores]:
    kept = {}
    for layer, query in found.queries.items():
        key, value = (x[layer].transpose(1, 2) for x in (found.keys, found.values))
        every = key
        if place.prefix is not None:
            shared = place.keys[layer].transpose(1, 2)
            every = torch.cat([shared.expand(len(key), -1, -1, -1), key], 2)
        heads, groups = query.shape[2], key.shape[1]
        every = every.repeat_interleave(heads // groups, 1)
        wide = [x if x.dtype == torch.float64 else x.float() for x in (query[:, 0], every)]
        scores = torch.einsum("bhd,bhkd->bhk", *wide) * _scaling(place.model, query.shape[-1])
        scores[..., : _hidden(place.model, layer, scores.shape[-1], own)] = torch.nan
        kept[layer] = LayerScores(scores, key, value)
    return kept


def _hidden(model: Any, layer: int, count: int, own: int) -> int:
    """How many of so many keys a layer's window hides from the last token, its own left out."""
    kinds = getattr(model.config, "attention_layers", ())
    if model.config.model_type not in _UNSCALED or kinds[layer] != "local":
        return 0
    return max(0, count - max(own, int(model.config.window_size)))


def _scaling(model: Any, dim: int) -> float:
    if model.config.model_type in _UNSCALED:
        return 1.0
    of_family = getattr(getattr(model.config, "attn_config", None), "softmax_scale", None)
    return float(of_family or dim**-0.5)
