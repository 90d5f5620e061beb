"""One vector put into the residual stream at a prompt's last token, in place of demonstrations.

What is changed at the last token leaves every token before it as it was. So a query runs once up
to there, and its last token as a batch of one item a change: all layers in one forward.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.model_facts import model_name, the_module
from probes.residuals import first_tensor, layers_of, tolerance, watching
from probes.run_records import Floats, as_array
from probes.three_runs_place import Place, logits_of, ready
from probes.three_runs_queries import Condition, Prompts, QueryRunner, Tokens
from prompts.refusal import Refusal, unknown_name

How = Literal["add", "replace"]
WAYS: tuple[How, ...] = ("add", "replace")
_NOTHING = np.zeros(0, dtype=np.int64)


class Patch(NamedTuple):
    """A vector (dim,) for what leaves a layer, counted from 0, at the last token of a prompt.

    `how`: added to it (2310.15213, section 2.3), or put in its place (2310.15916, section 2.2).
    """

    layer: int
    vector: NDArray[np.floating]
    how: How = "add"


class LastStates(NamedTuple):
    """What leaves each layer at each query's last token, `states` (query, layer, dim), and
    log-probabilities of the token after it, `next_logp` (query, word).
    """

    states: Floats
    next_logp: Floats


def last_states(loaded: Any, prompts: Prompts, before: Tokens = _NOTHING) -> LastStates:
    """The residual stream of every query behind the tokens `before` (and <bos>).

    Behind other text a query is run as `in_context` cuts it, else as `queries` does. Refuses a
    family whose layers do not hand on one stream of states.
    """
    module = the_module(loaded)
    runner = QueryRunner(module, prompts, "answer", False, block=1)
    place = runner.place(Condition(np.asarray(before, dtype=np.int64)))
    each = [_seen(place, runner.query(place, query)) for query in range(len(prompts.queries))]
    return LastStates(*(np.stack(part) for part in zip(*each, strict=True)))


def _seen(place: Place, tokens: Tokens) -> tuple[Floats, Floats]:
    """States (layer, dim) and log-probabilities (word,) of one query."""
    module, found = place.model, list[Tensor]()
    layers = list(layers_of(module))
    with watching(layers, lambda part, _, left: found.append(_last(module, part, left))):
        logits = logits_of(place, torch.as_tensor(tokens)[None], torch.tensor([len(tokens) - 1]))
    if len(found) != len(layers):
        raise Refusal(
            f"needed one call of each of {len(layers)} layers, came {len(found)}",
            where=model_name(module),
        )
    return as_array(torch.cat(found)), as_array(logits[0, 0].log_softmax(-1))


def _last(model: Any, part: nn.Module, left: Tensor | None) -> Tensor:
    if left is None or left.dim() != 3:
        raise _several_streams(model, part)
    return left[:, -1]


def _several_streams(model: Any, part: nn.Module) -> Refusal:
    kind = type(part).__name__
    return Refusal(f"needed one stream of states, came {kind}", where=model_name(model))


def patched_label_logp(
    loaded: Any, prompts: Prompts, patches: Sequence[Patch], *, block: int = 64
) -> Floats:
    """Log-probability (query, patch, class) of whole labels behind queries without demonstrations.

    Each patch is set at the query's last token, from which a label's first token is predicted; its
    further tokens run behind the patched one. Summed over a label's tokens. `block`: patches in
    one forward. Weights and hooks are as before when this ends, whatever ends it.
    """
    module = the_module(loaded)
    _refuse_patches(module, patches)
    return np.stack(
        [
            np.concatenate(
                [
                    _query_logp(module, prompts, query, patches[start : start + block])
                    for start in range(0, len(patches), block)
                ]
            )
            for query in range(len(prompts.queries))
        ]
    )


def _query_logp(module: Any, prompts: Prompts, query: int, patches: Sequence[Patch]) -> Floats:
    """(patch, class). Labels of one token are read off one forward, each longer one has its own."""
    tokens, labels = prompts.queries[query], prompts.labels[query]
    place = _up_to_last(module, prompts, query)
    at_last = _patched_logits(place, tokens[-1:], patches)[:, 0].log_softmax(-1)
    sums = []
    for label in labels:
        if len(label) == 1:
            sums.append(as_array(at_last[:, label[0]]))
            continue
        logp = _patched_logits(place, np.r_[tokens[-1], label[:-1]], patches).log_softmax(-1)
        wanted = torch.as_tensor(label, device=logp.device).expand(len(patches), -1)
        sums.append(as_array(logp.gather(-1, wanted[..., None])[..., 0].sum(-1)))
    return np.stack(sums, axis=1)


def _up_to_last(module: Any, prompts: Prompts, query: int) -> Place:
    """Everything of a query by itself but its last token, run once."""
    bos = [] if prompts.bos is None else [prompts.bos]
    longest = max(len(label) for label in prompts.labels[query])
    before = np.r_[np.array(bos, dtype=np.int64), prompts.queries[query][:-1]]
    return ready(module, before, skip=len(bos), shift=0, longest=longest)


@torch.inference_mode()
def _patched_logits(place: Place, tokens: Tokens, patches: Sequence[Patch]) -> Tensor:
    """Logits (patch, token, word) of these tokens, the first of which is patched."""
    ids = torch.as_tensor(tokens)[None].expand(len(patches), -1)
    with patching(place.model, patches, back=len(tokens)):
        return logits_of(place, ids, torch.arange(len(tokens)))


@contextmanager
def patching(model: Any, patches: Sequence[Patch], *, back: int = 1) -> Iterator[None]:
    """Inside the block item i of each batch runs with patch i, at its token `back` from the end.

    Hooks go when the block ends, whatever ends it.
    """
    module = the_module(model)
    layers = layers_of(module)
    with ExitStack() as hooks:
        for layer in sorted({one.layer for one in patches}):
            hook = _changing(module, layer, patches, back)
            hooks.callback(layers[layer].register_forward_hook(hook).remove)
        yield


def _changing(
    model: Any, layer: int, patches: Sequence[Patch], back: int
) -> Callable[[nn.Module, Any, Any], Any]:
    """What sets a layer's patches in the states that leave it."""
    own = [(item, one) for item, one in enumerate(patches) if one.layer == layer]

    def change(part: nn.Module, _: Any, output: Any) -> Any:
        states = first_tensor(output)
        if states is None or states.dim() != 3:
            raise _several_streams(model, part)
        states = states.clone()
        for item, one in own:
            vector = torch.as_tensor(one.vector).to(states)
            states[item, -back] = vector + (states[item, -back] if one.how == "add" else 0)
        return _with_first(output, states)

    return change


def _with_first(output: Any, states: Tensor) -> Any:
    """What a layer returns, with other states as its first tensor."""
    if isinstance(output, Tensor):
        return states
    return type(output)([_with_first(output[0], states), *output[1:]])


def refuse_unlike(loaded: Any, prompts: Prompts, seen: LastStates) -> None:
    """Refuses a family on which the whole effect of a prompt does not pass through the stream.

    The first query by itself, its end of the stream put in place as it was behind other text
    (`seen`), must predict the next token just as there.
    """
    module = the_module(loaded)
    last = len(layers_of(module)) - 1
    patch = Patch(last, seen.states[0, last], "replace")
    place = _up_to_last(module, prompts, 0)
    found = _patched_logits(place, prompts.queries[0][-1:], [patch])[0, 0].log_softmax(-1)
    expected = torch.as_tensor(seen.next_logp[0]).double()
    gap = float((found.cpu().double() - expected).norm() / expected.norm())
    if not gap < tolerance(module):
        raise Refusal(
            "needed a family whose next token follows from the end of the residual stream alone, "
            f"came {module.config.model_type!r}",
            where=model_name(module),
        )


def _refuse_patches(module: Any, patches: Sequence[Patch]) -> None:
    count = len(layers_of(module))
    for one in patches:
        if one.how not in WAYS:
            raise unknown_name("way of patching", str(one.how), WAYS)
        if not 0 <= one.layer < count:
            raise Refusal(
                f"needed a layer from 0 to {count - 1}, came {one.layer}", where=model_name(module)
            )
