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
from torch.nn.attention import SDPBackend
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from probes.scores import KeyValues, LayerRows, ScoreRule, attended, score_rows

NAME = "hatlens"


class LayerCall(NamedTuple):
    """One call of a layer's attention: what the layer handed over, and the rule it follows.

    `first_key`: position of the first key, None where the last key is the last query's own.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    rule: ScoreRule
    dropout: float
    options: dict[str, Any]
    first_key: int | None = None

    @property
    def layer(self) -> int:
        return int(self.module.layer_idx)  # type: ignore[arg-type]


def plain_output(call: LayerCall) -> Tensor:
    """The layer's output (batch, query, head, dim), by the fused kernel wherever it is exact."""
    if call.rule.softcap is not None or call.rule.sinks is not None:
        keys = KeyValues(call.key, call.value)
        return attended(call.query, keys, call.rule, dropout=call.dropout).output
    output, _ = sdpa_attention_forward(
        call.module,
        call.query,
        call.key,
        call.value,
        call.rule.mask,
        dropout=call.dropout,
        scaling=call.rule.scaling,
        **call.options,
    )
    return output


def kernel_name(call: LayerCall) -> str:
    """What computes this layer's output: torch's choice of fused kernel, or blocks of rows."""
    if call.rule.softcap is not None or call.rule.sinks is not None:
        return "ROWS"
    choice: Any = getattr(torch, "_fused_sdp_choice", None)
    if choice is None:  # torch keeps it to itself.
        return "SDPA"
    mask = call.rule.mask if call.query.shape[2] > 1 else None
    heads = call.query.shape[1] // call.key.shape[1]
    key, value = (x.repeat_interleave(heads, 1) for x in (call.key, call.value))
    causal = call.rule.causal
    chosen = choice(call.query, key, value, mask, 0.0, causal, scale=call.rule.scaling)
    return SDPBackend(chosen).name


@dataclass
class Recorder:
    """What one forward is asked for, and what came of it.

    `rows`: indices into this forward's own query axis, (query,) or (batch, query). `past`: the
    number of tokens that the cache already holds. `keep` reduces one layer's rows to what is
    kept of them; None: nothing is recorded. `calls` counts each layer's calls.
    """

    rows: Tensor
    past: int
    keep: Callable[[LayerRows], Any] | None
    kept: dict[int, Any] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)

    def positions(self, length: int) -> Tensor:
        """The position in its own prompt of each of this forward's tokens, (token,)."""
        return self.past + torch.arange(length)

    def attend(self, call: LayerCall) -> Tensor:
        """The layer's output; the asked rows are recorded on the way."""
        self.record(call, KeyValues(call.key, call.value))
        return plain_output(call)

    def record(self, call: LayerCall, keys: KeyValues) -> None:
        self.calls[call.layer] += 1
        if self.keep is not None:
            rows = score_rows(call.query, keys, self.rows, call.rule)
            first_key = call.first_key
            if first_key is None:
                first_key = self.past + call.query.shape[2] - keys.length
            self.kept[call.layer] = self.keep(rows._replace(first_key=first_key))


_ACTIVE: ContextVar[Recorder | None] = ContextVar("hatlens_recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Make `recorder` the active one inside the block; the former one is back afterwards."""
    token = _ACTIVE.set(recorder)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def active_recorder() -> Recorder | None:
    return _ACTIVE.get()


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
    call = LayerCall(module, query, key, value, rule, dropout, options)
    recorder = active_recorder()
    return (plain_output(call) if recorder is None else recorder.attend(call)), None


def hidden_after(queries: int, keys: int, device: torch.device) -> Tensor:
    """The mask (1, 1, query, key) under which the last query sees every key; True is visible."""
    rows = torch.arange(queries, device=device)[:, None] + keys - queries
    return (torch.arange(keys, device=device) <= rows)[None, None]


# Without a mask function of the same name, models skip mask creation and attention is
# silently non-causal wherever a mask is needed.
AttentionInterface.register(NAME, recorded_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
