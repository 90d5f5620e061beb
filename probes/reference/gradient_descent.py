"""Linear self-attention that takes gradient descent steps on in-context least squares.

Source: von Oswald et al., arXiv 2212.07677, proposition 1 and section 3.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from probes.reference.attention import Heads, LinearAttention, ReferenceModel
from prompts.refusal import Refusal


class GradientDescentModel(ReferenceModel):
    """`steps` layers, each one gradient descent step on sum_i (w.x_i - y_i)^2 / 2N from `start`.

    Tokens are (x_i, y_i), queries (x_q, -w_0.x_q); W_V = [0 0; w_0 -1], the projection is rate/N
    times the identity, and minus a query's last entry is the prediction after all steps. `rates`
    gives one head each, whose rates add up. `preconditioner` (feature, feature) is W_Q W_K', the
    identity by default: a step then is -rate * preconditioner @ gradient.
    """

    def __init__(
        self,
        *,
        examples: int,
        start: Tensor,
        rates: Sequence[float],
        steps: int = 1,
        preconditioner: Tensor | None = None,
    ) -> None:
        if not rates or steps < 1:
            raise Refusal(f"needed a rate and a step at least, came {rates!r} and {steps!r}")
        layers = [LinearAttention(step, self._project, self._output) for step in range(steps)]
        super().__init__(layers, examples=examples, sign=-1.0)
        features = len(start)
        identity = torch.eye(features, dtype=start.dtype)
        self.weights_at_start: Tensor
        self.rates: Tensor
        self.W_QK: Tensor
        self.register_buffer("weights_at_start", start)
        self.register_buffer("rates", torch.tensor(rates, dtype=start.dtype))
        self.register_buffer("W_QK", identity if preconditioner is None else preconditioner)

    def start(self, queries: Tensor, y: Tensor) -> Tensor:
        return -(queries @ self.weights_at_start)

    def _project(self, tokens: Tensor, examples: int) -> Heads:
        count = len(self.rates)
        x, shown = tokens[..., :-1], tokens[:, :examples]
        query, key = x @ self.W_QK, shown[..., :-1]
        residual = shown[..., :-1] @ self.weights_at_start - shown[..., -1]
        value = torch.cat([torch.zeros_like(key), residual[..., None]], -1)
        return Heads(*(part[:, None].expand(-1, count, -1, -1) for part in (query, key, value)))

    def _output(self, z: Tensor, examples: int) -> Tensor:
        return (z * self.rates[:, None, None]).sum(1) / examples
