"""An attention layer that answers by ordinary least squares on the examples of its context.

Source: arXiv 2504.09663, sections 2 and 3.1.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from probes.reference.attention import Heads, LinearAttention, ReferenceModel

Intercept = Literal["centre", "column"]


def inverse(eigenvalues: Tensor) -> Tensor:
    """1 / eigenvalue, 0 for those that are zero to rounding: least squares of minimum norm."""
    smallest = eigenvalues.shape[-1] * torch.finfo(eigenvalues.dtype).eps
    kept = eigenvalues > smallest * eigenvalues.amax(-1, keepdim=True)
    return torch.where(kept, 1 / eigenvalues.where(kept, torch.ones_like(eigenvalues)), 0.0)


class LeastSquaresModel(ReferenceModel):
    """One layer with W_Q W_K' = S^-1 of its context, softmax replaced by the identity, values y.

    With S = U diag(l) U', queries and keys are x U diag(spectrum(l))^1/2. `intercept`: "centre"
    takes the examples' means off x, and queries start at the mean of y; "column" puts a one
    before each x, and queries start at 0. A query's last entry is the prediction. Other spectra
    give ridge (1 / (l + lambda)) or principal components (0 past the first).
    """

    def __init__(
        self,
        *,
        examples: int,
        intercept: Intercept = "centre",
        spectrum: Callable[[Tensor], Tensor] = inverse,
    ) -> None:
        layer = LinearAttention(0, self._project, self._output)
        super().__init__([layer], examples=examples, sign=1.0)
        self.intercept, self.spectrum = intercept, spectrum

    def start(self, queries: Tensor, y: Tensor) -> Tensor:
        if self.intercept == "column":
            return torch.zeros_like(queries[..., 0])
        return y.mean(-1, keepdim=True).expand(queries.shape[:-1])

    def _project(self, tokens: Tensor, examples: int) -> Heads:
        x = tokens[..., :-1]
        if self.intercept == "column":
            x = torch.cat([torch.ones_like(x[..., :1]), x], -1)
        else:
            x = x - x[:, :examples].mean(1, keepdim=True)
        shown = x[:, :examples]
        eigenvalues, directions = torch.linalg.eigh(shown.transpose(1, 2) @ shown)
        scale = self.spectrum(eigenvalues).sqrt()
        embedded = (x @ directions * scale[:, None])[:, None]
        value = torch.zeros_like(tokens[:, :examples])
        value[..., -1] = tokens[:, :examples, -1]
        return Heads(embedded, embedded[:, :, :examples], value[:, None])

    def _output(self, z: Tensor, examples: int) -> Tensor:
        return z[:, 0]
