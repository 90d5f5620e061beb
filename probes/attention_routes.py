"""How what an attention layer gives reaches the residual stream: seen in a run, and checked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probes.answer_step import AnswerStep
from probes.head_values import output_projections
from probes.model_facts import model_name
from probes.residuals import layers_of, tolerance, watching
from prompts.refusal import Refusal


class Route(NamedTuple):
    """A layer adds `scale` x its output projection's output to the stream, normed if `norm`.

    `gain` (dim,): that norm's own factor; its other factor, 1 over the root mean square, is one
    number a token.
    """

    projection: nn.Module
    scale: float
    norm: nn.Module | None
    gain: Tensor | None

    def factors(self, output: Tensor, normed: Tensor | None) -> Tensor:
        """The norm's factor at each token (token,), from its input and its output (token, dim)."""
        if normed is None or self.gain is None:
            return torch.ones(len(output))
        return norm_factors(self.gain, output, normed)


class _Call(NamedTuple):
    module: nn.Module
    entered: Tensor | None
    left: Tensor


@torch.inference_mode()
def attention_routes(step: AnswerStep) -> Mapping[int, Route]:
    """The route of each attention layer, by layer.

    A layer's change of the stream must be its attention's output (through a norm that only
    rescales, such as Gemma 2's and OLMo 2's) times a number, plus at most one other part times a
    number. Refuses a family that is built otherwise, by name.
    """
    one, layers = step.apart()[0], layers_of(step.model)
    projections = output_projections(step.model)
    calls: dict[int, list[_Call]] = {layer: [] for layer in projections}
    inside = {id(part): i for i in projections for part in layers[i].modules()}
    size = len(one.last)

    def keep(module: nn.Module, entered: Tensor | None, left: Tensor | None) -> None:
        if left is not None and (last := _last_token(left, size)) is not None:
            first = None if entered is None else _last_token(entered, size)
            calls[inside[id(module)]].append(_Call(module, first, last))

    watched = [part for i in projections for part in layers[i].modules()]
    with watching(watched, keep):
        one.run()
    return {
        layer: _route(step.model, layers[layer], projection, calls[layer], layer)
        for layer, projection in projections.items()
    }


def _last_token(states: Tensor, queries: int) -> Tensor | None:
    """The states (query, dim) of the last token, where there are as many as queries have tokens."""
    if states.dim() == 2 and len(states) % queries == 0:
        states = states.view(queries, -1, states.shape[-1])
    if states.dim() != 3 or len(states) != queries:
        return None
    return states[:, -1].detach().cpu().double()


def _route(model: Any, layer: nn.Module, projection: Any, calls: list[_Call], place: int) -> Route:
    whole = next((call for call in calls if call.module is layer), None)
    own = next((call for call in calls if call.module is projection), None)
    if whole is None or whole.entered is None or own is None:
        raise _unlike(model, place)
    norm, given = None, own.left
    for call in calls:
        follows = call.entered is not None and torch.equal(call.entered, own.left)
        if follows and not torch.equal(call.left, own.left):
            norm, given = call.module, call.left
    gain = None if norm is None else _gain(model, norm, own.left, given, place)
    others = [
        call.left
        for call in calls
        if call.module not in (layer, projection, norm) and call.left.shape == given.shape
    ]
    scale = _scale(whole.left - whole.entered, given, others, _noise(model, whole))
    if scale is None:
        raise _unlike(model, place)
    return Route(projection, scale, norm, gain)


def _noise(model: Any, whole: _Call) -> float:
    """How large the rounding of a layer's change may be: the stream is rounded, not the change."""
    assert whole.entered is not None
    size = float(whole.entered.norm() + whole.left.norm())
    change = float((whole.left - whole.entered).norm())
    return 8 * torch.finfo(next(model.parameters()).dtype).eps * size + tolerance(model) * change


def _scale(change: Tensor, given: Tensor, others: list[Tensor], noise: float) -> float | None:
    """The factor of `given` in change = factor x given (+ another factor x one of the others)."""
    for other in (None, *others):
        columns = [given] if other is None else [given, other]
        design = torch.stack([column.flatten() for column in columns], 1)
        fit = torch.linalg.lstsq(design, change.flatten()[:, None]).solution
        if float((design @ fit - change.flatten()[:, None]).norm()) <= noise:
            factor = float(fit[0])
            if abs(factor) < 1e-6:  # The other part holds the attention's output already.
                continue
            return 1.0 if abs(factor - 1) < 1e-3 else factor
    return None


def norm_factors(gain: Tensor, entered: Tensor, left: Tensor) -> Tensor:
    """The number by which a norm multiplies gain x its input, for each token (token,)."""
    plain = gain * entered
    factors: Tensor = (plain * left).sum(-1) / (plain**2).sum(-1)
    return factors


def _gain(model: Any, norm: Any, entered: Tensor, left: Tensor, place: int) -> Tensor:
    """A rescaling norm's own factor (dim,): what it makes of ones, whose mean square is 1."""
    weight = next(iter(norm.parameters()), None)
    if weight is None:
        raise _unlike(model, place)
    gain: Tensor = norm(torch.ones_like(weight)[None])[0].cpu().double()
    if gain.shape != entered.shape[-1:]:
        raise _unlike(model, place)
    again = norm_factors(gain, entered, left)[:, None] * gain * entered
    if not float((again - left).norm()) <= tolerance(model) * float(left.norm()):
        raise _unlike(model, place)
    return gain


def _unlike(model: Any, layer: int) -> Refusal:
    kind = getattr(model.config, "model_type", type(model).__name__)
    return Refusal(
        "needed a layer that adds its attention's output to the residual stream, as it is, times a "
        f"number or through a norm that only rescales; the family {kind!r} does otherwise",
        where=f"{model_name(model)}, layer {layer}",
    )
