"""What one run of one query leaves, and how it is read from a forward."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.attention import LayerCall, Recorder
from probes.projections import Tapped
from probes.scores import KeyValues, score_rows
from probes.shared_cache import CachedRecorder

Floats = NDArray[np.floating]


class RunRecord(NamedTuple):
    """One query in one run, float32 (float64 where the model is), layers as `layers` names them.

    Of the recorded position: `h` (layer, width), the attention output after its output
    projection, before it is added to the residual stream; `scores` (layer, head, token), scaled
    q.k before softmax and mask over the query's own tokens, itself included: as many in every run,
    the last ones where a separator stands before them; `earlier` (layer,
    head, token), the same over the tokens before the query, <bos> excluded, NaN where a window
    hides them, None where there are none; `query` (layer, head, dim), before rotation; `inputs`
    (layer, width), what the query, key and value projections read.

    `next_logp` (word,): log-probabilities of the token after the query. `label_logp` (class, 2):
    log-probability of the whole label, summed and averaged over its tokens. `update` (layer,
    key/value head, value dim, key dim): the sum of v k' over the query's own tokens as attention
    used them, None where not asked. `seconds`: the time of its forwards.
    """

    layers: tuple[int, ...]
    h: Floats
    scores: Floats
    earlier: Floats | None
    query: Floats
    inputs: Floats
    next_logp: Floats
    label_logp: Floats
    update: Floats | None
    seconds: float


class QueryRuns(NamedTuple):
    """All runs of one query, by name: "icl", "zsl", "ft", and what else was asked for."""

    query: int
    runs: Mapping[str, RunRecord]


class LayerScores(NamedTuple):
    """Scores (batch, head, key) of one row; keys and values (batch, key/value head, token, dim).

    Keys and values are the batch's own, without a shared prefix.
    """

    scores: Tensor
    key: Tensor
    value: Tensor


def unmasked(call: LayerCall, keys: KeyValues, row: Tensor, own: int) -> LayerScores:
    """Scores of one row as they are before the mask; of earlier keys NaN where it hides them."""
    plain = call.rule._replace(mask=None, causal=False, sinks=None)
    scores = score_rows(call.query, keys, row, plain).scores[:, :, 0]
    if call.rule.mask is not None:
        seen = score_rows(call.query, keys, row, call.rule).scores[:, :, 0].isfinite()
        seen[..., -own:] = True
        scores = scores.masked_fill(~seen, torch.nan)
    return LayerScores(scores, keys.key, keys.value)


@dataclass
class RunRecorder(Recorder):
    """Keeps unmasked scores of its one row; `own`: how many tokens the query has."""

    own: int = 0

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        self.calls[call.layer] += 1
        self.kept[call.layer] = unmasked(call, keys, self.rows, self.own)


@dataclass
class CachedRunRecorder(CachedRecorder):
    """The same, on a prefix that all queries share."""

    own: int = 0

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        self.calls[call.layer] += 1
        self.kept[call.layer] = unmasked(call, keys, self.rows, self.own)


class Seen(NamedTuple):
    """What a forward of some queries (batch, token) left, before it is split by query.

    `own`: how many tokens are the query's own; `before`: how many stand before those, the first
    `skip` of which are <bos>.
    """

    tapped: Tapped
    kept: dict[int, LayerScores]
    own: int
    before: int
    skip: int


class Arrays(NamedTuple):
    """The parts of `RunRecord` that come from one forward, with a leading axis of queries."""

    h: Floats
    scores: Floats
    earlier: Floats | None
    query: Floats
    inputs: Floats
    update: Floats | None


def arrays_of(seen: Seen, *, updates: bool) -> Arrays:
    """Stacks what was seen over layers, by query."""
    layers = sorted(seen.kept)
    scores = torch.stack([_padded(seen.kept[i].scores, seen) for i in layers], 1)
    own = slice(seen.before, seen.before + seen.own)
    earlier = scores[..., seen.skip : seen.before]
    return Arrays(
        h=_stacked(seen.tapped.outputs)[:, :, 0],
        scores=as_array(scores[..., own]),
        earlier=as_array(earlier) if earlier.shape[-1] else None,
        query=_stacked(seen.tapped.queries)[:, :, 0],
        inputs=_stacked(seen.tapped.inputs)[:, :, 0],
        update=as_array(torch.stack([_update(seen.kept[i], seen.own) for i in layers], 1))
        if updates
        else None,
    )


def _padded(scores: Tensor, seen: Seen) -> Tensor:
    """Keys that a window has dropped stand first, as NaN."""
    missing = seen.before + seen.own - scores.shape[-1]
    return torch.nn.functional.pad(scores, (missing, 0), value=torch.nan).cpu()


def _update(kept: LayerScores, own: int) -> Tensor:
    return outer_sum(kept.key[:, :, -own:], kept.value[:, :, -own:]).cpu()


def outer_sum(key: Tensor, value: Tensor) -> Tensor:
    """The sum over tokens of v k', (batch, key/value head, value dim, key dim)."""
    wide = [x if x.dtype == torch.float64 else x.float() for x in (value, key)]
    return wide[0].transpose(2, 3) @ wide[1]


def _stacked(kept: dict[int, Tensor]) -> Floats:
    return as_array(torch.stack([kept[layer].cpu() for layer in sorted(kept)], 1))


def as_array(tensor: Any) -> Floats:
    """On the CPU, float32 unless it is float64."""
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    array: Floats = wide.detach().cpu().numpy()
    return array
