"""Scores and weights of attention, from a layer's queries and keys: plain functions of tensors."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

BLOCK_ELEMENTS = 1 << 24


class LayerRows(NamedTuple):
    """Attention of the asked query rows of one layer, float32 (float64 where the layer is).

    Axes are (batch, head, query, key). `scores` enter the softmax: scaled, softcap and position
    bias applied, -inf at keys that the mask hides. `weights` leave it: 0 at hidden keys, and a
    row whose keys are all hidden is 0 throughout. `sink` (batch, head, query) is the mass that a
    learned sink takes, None without sinks. `first_key` is the position of the first key column.
    """

    scores: Tensor
    weights: Tensor
    sink: Tensor | None
    first_key: int


class KeyValues(NamedTuple):
    """Keys and values (batch, key/value head, key, dim), un-repeated.

    `prefix_key`, `prefix_value` (1, key/value head, key, dim): earlier keys that the whole batch
    shares, None where there are none. Key columns count the prefix first.
    """

    key: Tensor
    value: Tensor
    prefix_key: Tensor | None = None
    prefix_value: Tensor | None = None

    @property
    def shared(self) -> int:
        return 0 if self.prefix_key is None else self.prefix_key.shape[2]

    @property
    def length(self) -> int:
        return self.shared + self.key.shape[2]


class ScoreRule(NamedTuple):
    """How a layer turns q.k into weights.

    `mask`: True at visible keys, or additive floats, (batch, head, query, key) broadcastable.
    `causal`: without a mask, the last query sees every key, each earlier one a key less.
    `linear`: the softmax is replaced by the identity.
    """

    scaling: float
    softcap: float | None = None
    bias: Tensor | None = None
    sinks: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    linear: bool = False


def take_rows(tensor: Tensor, rows: Tensor | None) -> Tensor:
    """The asked rows of axis 2 of (batch, head, row, ...), rows (query,) or (batch, query).

    None asks for all.
    """
    if rows is None:
        return tensor
    rows = rows.to(tensor.device)
    if rows.dim() == 1:
        return tensor.index_select(2, rows)
    tensor = tensor.expand(rows.shape[0], -1, -1, -1)
    index = rows[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
    return tensor.gather(2, index)


def _products(query: Tensor, keys: KeyValues) -> Tensor:
    """q.k as (batch, head, query, key); consecutive heads share a key/value head."""
    batch, heads, count, dim = query.shape
    groups = keys.key.shape[1]
    grouped = query.reshape(batch, groups, heads // groups * count, dim)
    products = grouped @ keys.key.to(query.dtype).transpose(2, 3)
    if keys.prefix_key is not None:
        together = grouped.transpose(0, 1).reshape(groups, -1, dim)
        shared = together @ keys.prefix_key[0].to(query.dtype).transpose(1, 2)
        shared = shared.view(groups, batch, -1, keys.shared).transpose(0, 1)
        products = torch.cat([shared, products], -1)
    return products.view(batch, heads, count, keys.length)


def _mixed(weights: Tensor, keys: KeyValues) -> Tensor:
    """Values weighted and summed, (batch, head, query, dim)."""
    batch, heads, count, _ = weights.shape
    groups, shared = keys.value.shape[1], keys.shared
    grouped = weights.reshape(batch, groups, -1, keys.length)
    mixed = grouped[..., shared:] @ keys.value
    if keys.prefix_value is not None:
        together = grouped[..., :shared].transpose(0, 1).reshape(groups, -1, shared)
        of_prefix = (together @ keys.prefix_value[0]).view(groups, batch, -1, mixed.shape[3])
        mixed = mixed + of_prefix.transpose(0, 1)
    return mixed.reshape(batch, heads, count, -1)


def _hide(scores: Tensor, rows: Tensor | None, rule: ScoreRule, queries: int) -> Tensor:
    """Scores with -inf at the keys that the asked rows may not see; written in place."""
    if rule.mask is not None:
        if rule.mask.shape[-1] < scores.shape[-1]:
            raise ValueError(f"a mask of {rule.mask.shape[-1]} keys for {scores.shape[-1]}")
        mask = take_rows(rule.mask[..., : scores.shape[-1]], rows)
        if mask.dtype == torch.bool:
            return scores.masked_fill_(~mask, -torch.inf)
        hidden = mask <= torch.finfo(mask.dtype).min / 2
        return (scores + mask.to(scores.dtype)).masked_fill_(hidden, -torch.inf)
    if rule.causal:
        own = scores[..., scores.shape[-1] - queries :]
        columns = torch.arange(queries, device=scores.device)
        rows = columns if rows is None else rows.to(scores.device)
        hidden = columns > rows[..., None]
        own.masked_fill_(hidden if rows.dim() == 1 else hidden[:, None], -torch.inf)
    return scores


def _weights(scores: Tensor, rule: ScoreRule) -> tuple[Tensor, Tensor | None]:
    if rule.linear:
        return scores.masked_fill(torch.isinf(scores), 0.0), None
    if rule.sinks is None:
        weights = scores.softmax(-1)
        return (weights.nan_to_num_(0.0) if rule.mask is not None else weights), None
    column = rule.sinks.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.cat([scores, column], -1).softmax(-1)
    return weights[..., :-1], weights[..., -1]


def score_rows(query: Tensor, keys: KeyValues, rows: Tensor | None, rule: ScoreRule) -> LayerRows:
    """Scores and weights of the asked rows of `query` (batch, head, row, dim), in float32.

    `rows` (query,) or (batch, query); None asks for all.
    """
    asked = take_rows(query, rows)
    asked = asked if asked.dtype == torch.float64 else asked.float()
    scores = _products(asked * rule.scaling, keys)
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    if rule.bias is not None:
        bias = rule.bias.expand(-1, -1, query.shape[2], -1)
        scores = scores + take_rows(bias, rows).to(scores.dtype)
    scores = _hide(scores, rows, rule, query.shape[2])
    weights, sink = _weights(scores, rule)
    return LayerRows(scores, weights, sink, 0)


class Attended(NamedTuple):
    """A layer's output (batch, query, head, dim), and the rows of its last query."""

    output: Tensor
    last: LayerRows


def attended(query: Tensor, keys: KeyValues, rule: ScoreRule, *, dropout: float = 0.0) -> Attended:
    """What a layer computes, where no fused kernel knows the rule or where keys are shared.

    Runs in blocks of rows, so memory grows linearly in the number of keys.
    """
    batch, heads, length, _ = query.shape
    if _can_fuse(query, keys, rule) and not dropout:
        last = score_rows(query, keys, torch.tensor([length - 1]), rule)
        return Attended(_fused(query, keys, rule).transpose(1, 2).contiguous(), last)
    block = max(1, BLOCK_ELEMENTS // (batch * heads * keys.length))
    everything = torch.arange(length, device=query.device)
    parts = []
    for rows in [None] if block >= length else torch.split(everything, block):
        computed = score_rows(query, keys, rows, rule)
        weights = computed.weights.to(keys.value.dtype)
        parts.append(_mixed(nn.functional.dropout(weights, dropout) if dropout else weights, keys))
    whole = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
    return Attended(whole.transpose(1, 2).contiguous(), _last(computed))


def _can_fuse(query: Tensor, keys: KeyValues, rule: ScoreRule) -> bool:
    """Whether a kernel that also gives each row's log sum of exponentials knows this rule."""
    plain = rule._replace(scaling=1.0, causal=False) == ScoreRule(1.0)
    same = (
        query.dtype == keys.key.dtype == keys.value.dtype and query.shape[3] == keys.value.shape[3]
    )
    return plain and same and keys.shared > 0 and query.device.type == "cpu"


def _fused(query: Tensor, keys: KeyValues, rule: ScoreRule) -> Tensor:
    """The output (batch, head, query, dim) over a shared prefix and each prompt's own keys.

    All rows meet the prefix in one fused call, without a map; the two softmaxes are joined by
    their log sums.
    """
    batch, heads, count, dim = query.shape
    # Heads of one key/value head are rows of one: no row is hidden from the prefix.
    together = query.transpose(0, 1).reshape(1, keys.key.shape[1], -1, dim)
    of_prefix, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        together, keys.prefix_key, keys.prefix_value, scale=rule.scaling
    )
    of_prefix = of_prefix.reshape(heads, batch, count, dim).transpose(0, 1)
    log_sum = log_sum.reshape(heads, batch, count, 1).transpose(0, 1)
    own = keys._replace(prefix_key=None, prefix_value=None)
    scores = _hide(_products(query.to(log_sum.dtype) * rule.scaling, own), None, rule, count)
    whole = torch.logaddexp(log_sum, scores.logsumexp(-1, keepdim=True))
    mixed = _mixed((scores - whole).exp().to(query.dtype), own)
    return torch.addcmul(mixed, (log_sum - whole).exp().to(query.dtype), of_prefix)


def _last(rows: LayerRows) -> LayerRows:
    sink = None if rows.sink is None else rows.sink[:, :, -1:]
    return LayerRows(rows.scores[:, :, -1:], rows.weights[:, :, -1:], sink, rows.first_key)
