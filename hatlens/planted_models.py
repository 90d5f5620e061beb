"""Transformers whose mechanism is known, named by the same row test as a language model."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from analysis.design import ContextArrays, Floats
from analysis.row_test import Pairs, row_test
from analysis.simulate import SimulatedDesign, simulate_contexts, simulate_pairs
from analysis.verdict import Verdict, attention_verdict
from probes.reference import GradientDescentModel, LeastSquaresModel, inverse, planted_rows
from probes.reference.attention import ReferenceModel

DESIGN = SimulatedDesign()
S_INVERSE = ("follows S^-1", "contains")
FIXED_METRIC = "bilinear scores with a fixed metric"


class Mechanism(NamedTuple):
    """A reference model and the labels that are right for its attention.

    build: a generator to a model. right: beginnings of a right label; where there are none, any
    label is right that does not name S^-1.
    """

    build: Callable[[torch.Generator], ReferenceModel]
    right: tuple[str, ...]


class Named(NamedTuple):
    """What the row test said of one reference model."""

    mechanism: str
    label: str
    right: bool
    sentence: str


def ridge(eigenvalues: Tensor) -> Tensor:
    """1 / (l + .01 mean l): the weakest direction is inverted by about two thirds."""
    return 1.0 / (eigenvalues + 0.01 * eigenvalues.mean(-1, keepdim=True))


def first_component(eigenvalues: Tensor) -> Tensor:
    """1 / l for the strongest direction, 0 for the others."""
    strongest = eigenvalues == eigenvalues.amax(-1, keepdim=True)
    return torch.where(strongest, inverse(eigenvalues), 0.0)


def gradient_descent(generator: torch.Generator) -> ReferenceModel:
    """One step from a random start."""
    start = torch.randn(DESIGN.features, generator=generator, dtype=torch.float64)
    return GradientDescentModel(examples=DESIGN.examples, start=start, rates=(0.5,))


def preconditioned(generator: torch.Generator) -> ReferenceModel:
    """Two steps with a random fixed W_Q W_K', from zero."""
    metric = torch.randn(DESIGN.features, DESIGN.features, generator=generator, dtype=torch.float64)
    return GradientDescentModel(
        examples=DESIGN.examples,
        start=torch.zeros(DESIGN.features, dtype=torch.float64),
        rates=(0.3, 0.2),
        steps=2,
        preconditioner=metric,
    )


def least_squares(
    spectrum: Callable[[Tensor], Tensor], *, column: bool = False
) -> Callable[[torch.Generator], ReferenceModel]:
    """An attention layer with W_Q W_K' = spectrum(S) of its context."""
    return lambda generator: LeastSquaresModel(
        examples=DESIGN.examples,
        intercept="column" if column else "centre",
        spectrum=spectrum,
    )


MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        "one gradient step": Mechanism(gradient_descent, (FIXED_METRIC,)),
        "two preconditioned gradient steps": Mechanism(preconditioned, (FIXED_METRIC,)),
        "least squares, means taken off": Mechanism(
            least_squares(inverse), ("follows S^-1 (OLS)",)
        ),
        "least squares, column of ones": Mechanism(
            least_squares(inverse, column=True), ("follows S^-1 (OLS)",)
        ),
        "ridge": Mechanism(least_squares(ridge), ("follows S^-1 (partly inverted)",)),
        "first principal component": Mechanism(least_squares(first_component), ()),
    }
)


def name_planted_models(
    *, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[Named]:
    """Capture every reference model's scores, test them, and say whether the label is right."""
    found = []
    for place, (name, mechanism) in enumerate(MECHANISMS.items()):
        verdict = judged(mechanism.build(torch.Generator().manual_seed(seed)), seed)
        found.append(Named(name, verdict.label, is_right(mechanism, verdict), verdict.sentence))
        if progress is not None:
            progress(place + 1, len(MECHANISMS))
    return found


def judged(model: ReferenceModel, seed: int) -> Verdict:
    """The verdict on the model's heads, contexts and re-paired twins drawn from the seed."""
    rng = np.random.default_rng([seed, 0])
    contexts = simulate_contexts(DESIGN, rng=rng)
    first, second = simulate_pairs(DESIGN, rng=rng)
    probes = DESIGN.examples // 2
    pairs = Pairs(
        scores(model, first)[..., :probes], scores(model, second)[..., :probes], first, second
    )
    return attention_verdict(row_test(scores(model, contexts), contexts, rng=rng, pairs=pairs))


def scores(model: ReferenceModel, contexts: ContextArrays) -> Floats:
    """(C, M, rows, N): layers and heads as one axis."""
    captured = planted_rows(model, contexts.x, contexts.y, contexts.queries).scores
    count, queries, layers, heads, examples = captured.shape
    return captured.reshape(count, queries, layers * heads, examples)


def is_right(mechanism: Mechanism, verdict: Verdict) -> bool:
    """Whether the label is one of those that are right for the mechanism."""
    if mechanism.right:
        return verdict.label.startswith(mechanism.right)
    return not verdict.label.startswith((*S_INVERSE, "not "))
