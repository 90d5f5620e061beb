"""The residual stream at the answer position, and what the model makes of its end.

How a family is built is not asked of a table but seen while it runs, and what was seen is checked
by the numbers, so that a family that is built otherwise is refused and never misread.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from probes.answer_step import AnswerStep
from probes.model_facts import model_name, text_config, the_module
from prompts.refusal import Refusal

_SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap")


class Stream(NamedTuple):
    """The residual stream of some queries at their last token.

    `states` (query, layer + 1, dim): what enters the first layer, then what leaves each; the last
    is before the final norm. `logits` (query, word).
    """

    states: Tensor
    logits: Tensor


@dataclass(frozen=True)
class OutputHead:
    """What turns the end of the stream into logits.

    `tail`: the modules after the last layer, in turn (the final norm); `unembedding`; then a soft
    cap where the model has one, and a factor.
    """

    tail: Sequence[nn.Module]
    unembedding: nn.Module
    softcap: float | None
    factor: float

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        """Logits (..., word) of any states (..., dim), as if they were the stream's end."""
        return self.factor * _capped(self._raw(states), self.softcap)

    def _raw(self, states: Tensor) -> Tensor:
        weight: Any = self.unembedding.weight
        states = states.to(weight)
        for module in self.tail:
            states = module(states)
        raw: Tensor = self.unembedding(states)
        return raw.float()


def layers_of(model: Any) -> nn.ModuleList:
    """The layers that the residual stream runs through; refuses a model where none are found."""
    module = the_module(model)
    count = int(text_config(module).num_hidden_layers)
    for part in module.modules():
        if isinstance(part, nn.ModuleList) and len(part) == count:
            return part
    raise Refusal(f"needed a list of {count} layers, came none", where=model_name(module))


def first_tensor(value: Any) -> Tensor | None:
    """A tensor, or the first of several that a module returns."""
    while isinstance(value, tuple | list) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None


def hidden_argument(given: tuple[Any, ...], named: dict[str, Any]) -> Tensor | None:
    """The hidden states that a layer was called with."""
    return first_tensor(given[0] if given else named.get("hidden_states"))


@contextmanager
def watching(
    modules: Sequence[nn.Module], tell: Callable[[nn.Module, Tensor | None, Tensor | None], None]
) -> Iterator[None]:
    """Inside the block `tell` is given each call's module, hidden states and result."""

    def hook(module: nn.Module, given: Any, named: Any, output: Any) -> None:
        tell(module, hidden_argument(given, named), first_tensor(output))

    with ExitStack() as hooks:
        for module in modules:
            handle = module.register_forward_hook(hook, with_kwargs=True)
            hooks.callback(handle.remove)
        yield


@torch.inference_mode()
def residual_stream(step: AnswerStep) -> Stream:
    """The stream of every query at the answer position, float32 (float64 where the model is)."""
    layers = layers_of(step.model)
    parts: list[list[Tensor]] = []
    logits = []

    def keep(module: nn.Module, entered: Tensor | None, left: Tensor | None) -> None:
        if entered is None or left is None or left.dim() != 3:
            kind = type(module).__name__
            raise Refusal(f"needed one stream of states, came {kind}", where=model_name(step.model))
        if module is layers[0]:
            parts.append([_last(entered)])
        parts[-1].append(_last(left))

    for one in step.apart():
        with watching(list(layers), keep):
            logits.append(one.run().logits.cpu())
    states = torch.cat([torch.stack(each, 1) for each in parts])
    return Stream(states, torch.cat(logits))


def _last(states: Tensor) -> Tensor:
    last = states[:, -1].detach().cpu()
    return last if last.dtype == torch.float64 else last.float()


@torch.inference_mode()
def output_head(step: AnswerStep) -> OutputHead:
    """What stands after the last layer, seen in a run and checked against its logits.

    Refuses a family whose logits are not made of the stream's end in this way.
    """
    layers, module = layers_of(step.model), step.model
    one = step.apart()[0]
    parent = next(part for part in module.modules() if layers in list(part.children()))
    called: list[nn.Module] = []
    around = [layers[-1], *(part for part in parent.children() if part is not layers)]
    with watching(around, lambda part, *_: called.append(part)):
        stream = residual_stream(one)
    tail = called[called.index(layers[-1]) + 1 :]
    config = text_config(module)
    softcap = next((cap for name in _SOFTCAPS if (cap := getattr(config, name, None))), None)
    head = OutputHead(tail, module.get_output_embeddings(), softcap, 1.0)
    try:
        found = head.logits(stream.states[:, -1].to(stream.logits.device))
    except RuntimeError:
        raise _unlike(module) from None
    found, expected = found.cpu().double(), stream.logits.double()
    factor = float((found * expected).sum() / (found**2).sum())
    gap = (factor * found - expected).norm() / expected.norm()
    if not gap < tolerance(module):
        raise _unlike(module)
    return OutputHead(tail, head.unembedding, softcap, 1.0 if abs(factor - 1) < 1e-3 else factor)


def tolerance(model: Any) -> float:
    """How far two ways to one number may lie apart, relative, in the model's dtype."""
    dtype = next(model.parameters()).dtype
    return max(1e-4, 8 * torch.finfo(dtype).eps)


def _capped(raw: Tensor, softcap: float | None) -> Tensor:
    return raw if softcap is None else softcap * torch.tanh(raw / softcap)


def _unlike(model: Any) -> Refusal:
    kind = getattr(model.config, "model_type", type(model).__name__)
    return Refusal(
        f"needed logits that a final norm and the unembedding make of the last layer's output; "
        f"those of the family {kind!r} are made otherwise",
        where=model_name(model),
    )
