"""The attention function that computes scores of a few query positions beside a fused forward.

`transformers` hands every attention layer's post-rotary queries and keys to a function that is
registered by name. Ours runs the fused kernel for the layer's output and, while a recorder is
active, one small product for the asked query rows. No map over all pairs of tokens ever exists.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "hatlens"
_CHUNK_ELEMENTS = 1 << 24


class LayerRows(NamedTuple):
    """Attention of the asked query rows of one layer, float32.

    Axes are (batch, head, query, key). `scores` enter the softmax: scaled, softcap and position
    bias applied, -inf at keys that the mask hides. `weights` leave it: 0 at hidden keys, and a
    row whose keys are all hidden is 0 throughout. `sink` (batch, head, query) is the mass that a
    learned sink takes, None without sinks. `first_key` is the position of the first key column.
    """

    scores: Tensor
    weights: Tensor
    sink: Tensor | None
    first_key: int


@dataclass
class Recorder:
    """What one forward is asked for, and what came of it.

    `rows` are indices into this forward's own query axis, (query,) or (batch, query); `past` is
    the number of tokens that the cache already holds; `keep` reduces one layer's rows to what
    is kept of them.
    """

    rows: Tensor
    past: int
    keep: Callable[[LayerRows], Any]
    kept: dict[int, Any] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)

    def record(self, layer: int, rows: LayerRows) -> None:
        self.calls[layer] += 1
        self.kept[layer] = self.keep(rows)


_ACTIVE: ContextVar[Recorder | None] = ContextVar("hatlens_recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make `recorder` the active one inside the block; the former one is back afterwards."""
    token = _ACTIVE.set(recorder)
    try:
        yield recorder
    finally:
        _ACTIVE.reset(token)


class ScoreRule(NamedTuple):
    """How a layer turns q.k into weights: scale, softcap, additive bias, sinks, mask."""

    scaling: float
    softcap: float | None = None
    bias: Tensor | None = None
    sinks: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False


def take_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """The asked rows of axis 2 of (batch, head, row, ...), rows (query,) or (batch, query)."""
    if rows.dim() == 1:
        return tensor.index_select(2, rows.to(tensor.device))
    index = rows.to(tensor.device)[:, None, :, None]
    tensor = tensor.expand(rows.shape[0], -1, -1, -1)
    return tensor.gather(2, index.expand(-1, tensor.shape[1], -1, tensor.shape[3]))


def _visible(rule: ScoreRule, rows: Tensor, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Which keys the asked rows may see (True), and what a float mask adds to their scores."""
    if rule.mask is None:
        if not rule.causal:
            return None, None
        seen = torch.arange(keys, device=rows.device) <= rows[..., None]
        return (seen if rows.dim() == 1 else seen[:, None]), None
    mask = take_rows(rule.mask[..., :keys], rows)
    if mask.dtype == torch.bool:
        return mask, None
    visible = mask > torch.finfo(mask.dtype).min / 2
    return visible, mask.float().masked_fill(~visible, 0.0)


def score_rows(query: Tensor, key: Tensor, rows: Tensor, rule: ScoreRule) -> LayerRows:
    """Scores and weights of the asked rows, in float32, key/value heads never repeated.

    query (batch, head, row, dim), key (batch, key/value head, key, dim); consecutive query heads
    share a key/value head.
    """
    batch, heads, _, dim = query.shape
    groups, keys = key.shape[1], key.shape[2]
    asked = take_rows(query, rows).float()
    count = asked.shape[2]
    grouped = asked.reshape(batch, groups, heads // groups * count, dim)
    scores = (grouped @ key.float().transpose(2, 3)).view(batch, heads, count, keys) * rule.scaling
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    if rule.bias is not None:
        scores = scores + take_rows(rule.bias.expand(-1, -1, query.shape[2], -1), rows).float()
    visible, added = _visible(rule, rows.to(scores.device), keys)
    if added is not None:
        scores = scores + added
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return _softmax(scores, rule.sinks)


def _softmax(scores: Tensor, sinks: Tensor | None) -> LayerRows:
    if sinks is None:
        return LayerRows(scores, scores.softmax(-1).nan_to_num(0.0), None, 0)
    column = sinks.float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.cat([scores, column], -1).softmax(-1)
    return LayerRows(scores, weights[..., :-1], weights[..., -1], 0)


def _unfused_output(
    query: Tensor, key: Tensor, value: Tensor, rule: ScoreRule, dropout: float
) -> Tensor:
    """A layer's output where no fused kernel knows the rule (softcap, sinks): in row blocks."""
    batch, heads, length, _ = query.shape
    groups = key.shape[1]
    block = max(1, _CHUNK_ELEMENTS // (batch * heads * key.shape[2]))
    parts = []
    for rows in torch.arange(length, device=query.device).split(block):
        weights = score_rows(query, key, rows, rule).weights.to(value.dtype)
        weights = nn.functional.dropout(weights, dropout)
        grouped = weights.reshape(batch, groups, -1, key.shape[2]) @ value
        parts.append(grouped.reshape(batch, heads, len(rows), value.shape[3]))
    return torch.cat(parts, 2).transpose(1, 2).contiguous()


def _rule(
    module: nn.Module,
    query: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    options: dict[str, Any],
) -> ScoreRule:
    is_causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return ScoreRule(
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=options.get("softcap"),
        bias=options.get("position_bias"),
        sinks=options.get("s_aux"),
        mask=mask,
        causal=bool(causal) and mask is None and query.shape[2] > 1,
    )


def recorded_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The registered function: the fused output, and the asked rows given to the recorder."""
    rule = _rule(module, query, attention_mask, scaling, options)
    recorder = _ACTIVE.get()
    if recorder is not None:
        rows = score_rows(query, key, recorder.rows, rule)
        first_key = recorder.past + query.shape[2] - key.shape[2]
        recorder.record(int(module.layer_idx), rows._replace(first_key=first_key))  # type: ignore[arg-type]
    if rule.softcap is not None or rule.sinks is not None:
        return _unfused_output(query, key, value, rule, dropout), None
    output, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
    )
    return output, None


# Without a mask function of the same name, models skip mask creation and attention is
# silently non-causal wherever a mask is needed.
AttentionInterface.register(NAME, recorded_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
