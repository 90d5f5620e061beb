"""What each head writes about each example into the answer: attention weights times values.

A head adds sum_j a_j W_O v_j to the residual stream at the answer position. Projected on a
read-out direction that is a signed number for each token j: unlike a weight it can be negative.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.answer_step import AnswerStep, Prompts, answer_step
from probes.attention import LayerCall
from probes.attention_routes import Route, attention_routes
from probes.head_values import head_grid
from probes.model_facts import model_name, the_module
from probes.query_weights import output_axis
from probes.residuals import output_head, residual_stream, tolerance, watching
from probes.rows import PARTS
from probes.scores import KeyValues, score_rows
from prompts.refusal import Refusal

Floats = NDArray[np.float64]


class PromptParts(Prompts, Protocol):
    """A tokenized context with the places of its examples."""

    @property
    def parts(self) -> Any: ...


class Contributions(NamedTuple):
    """What each head adds along a direction of the residual stream, at each answer position.

    `rows` float64 (query, layer, head, part, example): summed over the tokens of the example's
    part (parts are `PARTS`); 0 where an example is not seen. `whole` (query, layer, head): summed
    over all tokens of the prompt, the query's own included. `added` (query, layer): the layer's
    whole attention output without its bias along the direction, which is `whole` summed over
    heads. `layers`: the model's index of each layer.
    """

    rows: Floats
    whole: Floats
    added: Floats
    layers: tuple[int, ...]


def contributions(
    loaded: Any,
    tokenized: PromptParts,
    direction: Floats,
    *,
    routes: Mapping[int, Route] | None = None,
    step: AnswerStep | None = None,
) -> Contributions:
    """Direct contributions of every head and example to the answer along a read-out direction.

    `direction`: (dim,), or (layer, dim) with one for each attention layer, in the residual stream
    before the final norm. Where a norm stands between attention and the stream its factor at that
    token is taken as given. `routes` of `attention_routes` and a `step` of `answer_step` where
    they are at hand. Refuses a family in which what heads give is more than weights times values
    (a gate or a norm before the output projection), by name.
    """
    step = answer_step(the_module(loaded), tokenized) if step is None else step
    routes = attention_routes(step) if routes is None else routes
    layers = tuple(sorted(routes))
    along = _directions(direction, layers, step)
    found = [_of_queries(one, routes, along, tokenized.parts) for one in step.apart()]
    whole, rows = (torch.cat([one[i] for one in found]).double().numpy() for i in (0, 1))
    added = torch.cat([one[2] for one in found]).double().numpy()
    _refuse_other_sums(step.model, layers, whole, added)
    return Contributions(rows, whole, added, layers)


def _directions(
    direction: Floats, layers: tuple[int, ...], step: AnswerStep
) -> Mapping[int, Tensor]:
    size = int(step.model.get_input_embeddings().weight.shape[1])
    given = torch.as_tensor(np.asarray(direction), dtype=torch.float64)
    if tuple(given.shape) not in ((size,), (len(layers), size)):
        raise Refusal(
            f"needed a direction of {size} numbers, or {len(layers)} of them; came the shape "
            f"{tuple(given.shape)!r}",
            where=model_name(step.model),
        )
    return dict(zip(layers, given.expand(len(layers), size), strict=True))


class _Seen(NamedTuple):
    """What was seen while the answer position ran, by layer, before any norm.

    `whole` (query, head); `rows` (query, head, part and example); `output` (query, dim), of the
    output projection; `normed` (query, dim), of the norm behind it where there is one.
    """

    whole: dict[int, Tensor]
    rows: dict[int, Tensor]
    output: dict[int, Tensor]
    normed: dict[int, Tensor]


def _of_queries(
    step: AnswerStep, routes: Mapping[int, Route], along: Mapping[int, Tensor], parts: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """(query, layer, head), (query, layer, head, part, example) and (query, layer)."""
    sums, shape = _summing(parts)
    reads = {i: route_reading(route, along[i], step.model) for i, route in routes.items()}
    seen = _watched(step, routes, reads, sums)
    whole, rows, added = [], [], []
    for layer, route in sorted(routes.items()):
        factors = route.factors(seen.output[layer], seen.normed.get(layer))
        output = seen.output[layer] - _bias(route.projection)
        added.append(factors * (output @ _scaled(route, along[layer])))
        whole.append(factors[:, None] * seen.whole[layer].double())
        rows.append(factors[:, None, None] * seen.rows[layer].double())
    each = torch.stack(rows, 1)
    return torch.stack(whole, 1), each.view(*each.shape[:3], *shape), torch.stack(added, 1)


@torch.inference_mode()
def _watched(
    step: AnswerStep, routes: Mapping[int, Route], reads: Mapping[int, Tensor], sums: Tensor
) -> _Seen:
    seen = _Seen({}, {}, {}, {})
    places = {id(route.projection): (seen.output, i) for i, route in routes.items()}
    places |= {id(route.norm): (seen.normed, i) for i, route in routes.items() if route.norm}

    def observe(call: LayerCall, keys: KeyValues, first: int) -> None:
        values = weighted_values(call, keys, reads[call.layer])
        here = sums[first:].to(values)
        seen.whole[call.layer] = values.sum(-1).cpu()
        seen.rows[call.layer] = (values[..., : len(here)] @ here).cpu()

    def note(module: nn.Module, entered: Tensor | None, left: Tensor | None) -> None:
        assert left is not None
        kept, layer = places[id(module)]
        kept[layer] = left[:, -1].cpu().double()

    norms = [route.norm for route in routes.values() if route.norm is not None]
    with watching([*(route.projection for route in routes.values()), *norms], note):
        step.run(observe)
    return seen


def _scaled(route: Route, direction: Tensor) -> Tensor:
    """The direction as the output projection's output meets it, but for the norm's factor."""
    return route.scale * (direction if route.gain is None else route.gain * direction)


def _bias(projection: nn.Module) -> Tensor:
    bias: Any = getattr(projection, "bias", None)
    found: Tensor = torch.zeros(()) if bias is None else bias.detach().cpu().double()
    return found


def route_reading(route: Route, direction: Tensor, model: Any) -> Tensor:
    """What each head's value is multiplied with to read it along the direction, (head, dim)."""
    projection: Any = route.projection
    weight = projection.weight.detach()
    weight = weight if output_axis(route.projection) == 0 else weight.T
    read = _scaled(route, direction).to(weight.device) @ weight.double()
    by_head: Tensor = read.view(head_grid(model).heads, -1)
    return by_head


def weighted_values(call: LayerCall, keys: KeyValues, read: Tensor) -> Tensor:
    """Weight x value along a direction, of the last query position, (batch, head, key).

    `read` (head, dim). Consecutive heads share a key/value head.
    """
    last = torch.tensor([call.query.shape[2] - 1])
    weights = score_rows(call.query, keys, last, call.rule).weights[:, :, 0]
    read = read.view(keys.value.shape[1], -1, read.shape[-1]).to(weights)
    parts = (keys.prefix_value, keys.value)
    along = [torch.einsum("bgkd,ghd->bghk", x.to(weights), read) for x in parts if x is not None]
    along = [x.expand(len(weights), -1, -1, -1).flatten(1, 2) for x in along]
    return weights * torch.cat(along, -1)


def _summing(parts: Any) -> tuple[Tensor, tuple[int, int]]:
    """The matrix (token, part and example) that sums over each example's tokens."""
    tokens = [torch.as_tensor(np.asarray(parts[name]), dtype=torch.long) for name in PARTS]
    examples = len(tokens[-1])
    sums = torch.zeros(int(tokens[-1].max()) + 1, len(PARTS), examples)
    for part, of_part in enumerate(tokens):
        for example, positions in enumerate(of_part):
            sums[positions, part, example] = 1.0
    return sums.flatten(1), (len(PARTS), examples)


def _refuse_other_sums(model: Any, layers: tuple[int, ...], whole: Floats, added: Floats) -> None:
    """What heads give must be their weights times their values, or the rows mean nothing."""
    size = np.abs(whole).sum(-1) + np.abs(added)
    for place, layer in enumerate(layers):
        gap = np.abs(whole.sum(-1) - added)[:, place]
        if not (gap <= 10 * tolerance(model) * size[:, place].max()).all():
            kind = getattr(model.config, "model_type", type(model).__name__)
            raise Refusal(
                "needed heads that give their weights times their values; in the family "
                f"{kind!r} something stands between (a gate or a norm)",
                where=f"{model_name(model)}, layer {layer}",
            )


def digit_direction(loaded: Any, step: AnswerStep) -> Floats:
    """The direction (dim,) along which the logits of the digits 0 to 9 rise with the digit.

    sum_d (d - 4.5) W_U[d] / 82.5, the slope of the ten logits on the digit, through the final
    norm: its own factor is folded in (and its centring where it centres), its scale at each token
    is not, so a projection is a slope up to that positive number. Refuses a tokenizer without a
    token for each digit, and a model whose end is no norm and unembedding.
    """
    head = output_head(step)
    weight: Any = head.unembedding.weight
    ids = [loaded.tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    unknown = getattr(loaded.tokenizer, "unk_token_id", None)
    if any(i is None or i == unknown for i in ids) or len(set(ids)) < 10:
        raise Refusal("needed a token for each digit from 0 to 9", where=model_name(step.model))
    digits = torch.arange(10, dtype=torch.float64) - 4.5
    slope = digits / (digits**2).sum() @ weight.detach()[ids].cpu().double()
    states = residual_stream(step).states[:, -1].double()
    return _before_norm(step.model, head.tail, states, slope).numpy()


@torch.inference_mode()
def _before_norm(model: Any, tail: Any, states: Tensor, direction: Tensor) -> Tensor:
    """A direction behind the final norm as one before it, but for the norm's scale at a token."""
    if len(tail) != 1:
        raise Refusal(f"needed one final norm, came {len(tail)}", where=model_name(model))
    norm: Any = tail[0]
    weight = next(iter(norm.parameters()))
    bias = getattr(norm, "bias", None)
    shift = torch.zeros(len(direction)) if bias is None else bias.detach().cpu().double()
    behind = norm(states.to(weight)).cpu().double() - shift
    ones = torch.ones(len(direction), dtype=torch.float64)
    alternating = torch.where(torch.arange(len(direction)) % 2 == 0, ones, -ones)
    # A mean square of 1 and, where the count is even, a mean of 0: both kinds of norm leave it.
    gain = (norm(alternating.to(weight)[None])[0].cpu().double() - shift) * alternating
    for centred in (False, True):
        plain = states - states.mean(-1, keepdim=True) if centred else states
        scales = (gain * plain * behind).sum(-1) / ((gain * plain) ** 2).sum(-1)
        again = scales[:, None] * gain * plain
        if float((again - behind).norm()) <= tolerance(model) * float(behind.norm()):
            found: Tensor = gain * direction
            return torch.sub(found, found.mean()) if centred else found
    raise Refusal(
        f"needed a final norm that only rescales or centres, came {type(norm).__name__}",
        where=model_name(model),
    )
