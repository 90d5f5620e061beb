"""Linear attention over in-context examples, the block that the reference models are made of.

A reference model reads real-valued tokens (batch, token, dim), one an example (x_i, y_i) and one a
query (x_q, start), the examples first. Keys and values are the examples: queries are not among
them. Softmax is replaced by the identity. Hook points bear the names of transformer-lens.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.attention import LayerCall, active_recorder
from probes.scores import KeyValues, ScoreRule, score_rows

LINEAR = ScoreRule(1.0, linear=True)


def _hook() -> nn.Module:
    return HookPoint()  # type: ignore[no-untyped-call]


class Heads(NamedTuple):
    """Queries of all tokens, keys and values of the examples: (batch, head, token, dim) each."""

    query: Tensor
    key: Tensor
    value: Tensor


class LinearAttention(nn.Module):
    """One layer: each token's sum over the examples of score x value, through `output`.

    `project` makes the heads from (tokens, examples); `output` takes (batch, head, token, dim) to
    what the layer adds to each token.
    """

    def __init__(
        self,
        layer: int,
        project: Callable[[Tensor, int], Heads],
        output: Callable[[Tensor, int], Tensor],
    ) -> None:
        super().__init__()
        self.layer_idx = layer
        self.project, self.output = project, output
        self.hook_q, self.hook_k, self.hook_v = _hook(), _hook(), _hook()
        self.hook_attn_scores, self.hook_pattern = _hook(), _hook()
        self.hook_z = _hook()

    def forward(self, tokens: Tensor, examples: int) -> Tensor:
        heads = self.project(tokens, examples)
        query, key, value = (
            self.hook_q(heads.query),
            self.hook_k(heads.key),
            self.hook_v(heads.value),
        )
        keys = KeyValues(key, value)
        recorder = active_recorder()
        if recorder is not None:
            call = LayerCall(self, query, key, value, LINEAR, 0.0, {}, first_key=0)
            recorder.record(call, keys)
        scores: Tensor = self.hook_attn_scores(score_rows(query, keys, None, LINEAR).scores)
        z: Tensor = self.hook_z(self.hook_pattern(scores) @ value)
        return self.output(z, examples)


class ReferenceBlock(nn.Module):
    """Attention and its residual connection."""

    def __init__(self, attention: LinearAttention) -> None:
        super().__init__()
        self.attn = attention
        self.hook_resid_pre, self.hook_attn_out = _hook(), _hook()
        self.hook_resid_post = _hook()

    def forward(self, tokens: Tensor, examples: int) -> Tensor:
        tokens = self.hook_resid_pre(tokens)
        added: Tensor = self.hook_attn_out(self.attn(tokens, examples))
        result: Tensor = self.hook_resid_post(tokens + added)
        return result


class ReferenceModel(HookedRootModule):
    """Blocks in a row over tokens whose first `examples` are the examples.

    The output is every token's last entry after the last block, times `sign`.
    """

    def __init__(self, attention: list[LinearAttention], *, examples: int, sign: float) -> None:
        super().__init__()
        self.reference_layers = tuple(range(len(attention)))
        self.examples, self.sign = examples, sign
        self.blocks = nn.ModuleList([ReferenceBlock(layer) for layer in attention])
        self.setup()  # type: ignore[no-untyped-call]

    def start(self, queries: Tensor, y: Tensor) -> Tensor:
        """The last entry that each query's token starts with, (batch, query)."""
        raise NotImplementedError

    def tokens(self, x: Tensor, y: Tensor, queries: Tensor) -> Tensor:
        """Tokens of contexts x (batch, example, feature), y (batch, example) and their queries."""
        examples = torch.cat([x, y[..., None]], -1)
        asked = torch.cat([queries, self.start(queries, y)[..., None]], -1)
        return torch.cat([examples, asked], 1)

    def forward(self, tokens: Tensor) -> Tensor:
        for block in self.blocks:
            tokens = block(tokens, self.examples)
        return self.sign * tokens[..., -1:]
