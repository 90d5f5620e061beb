"""The spread of attention scores, and queries rescaled until it is another model's.

The spread of a layer is the standard deviation of a score row over the keys that the row may
see, averaged over heads and the asked rows. Adding a constant to a row changes nothing, as it
changes nothing in a softmax.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from probes.attention import LayerCall, Recorder, plain_output
from probes.capture import capture
from probes.forward import recorded_logits
from probes.model_facts import attention_path
from probes.query_weights import query_holders, scale_queries
from probes.scores import KeyValues, LayerRows, score_rows
from prompts.refusal import Refusal

TOLERANCE = 0.01
_ROUNDS = 40


class Prompts(NamedTuple):
    """Prompts of equal length (prompt, token), and the positions whose score rows are read."""

    ids: Tensor
    positions: Tensor


def spread_of(scores: Tensor) -> float:
    """Mean over rows of a score row's standard deviation over its finite keys; NaN without rows."""
    seen = scores.isfinite()
    count = seen.sum(-1)
    kept = scores.double().masked_fill(~seen, 0.0)
    mean = kept.sum(-1) / count.clamp(min=1)
    squares = ((kept - mean[..., None]) ** 2).masked_fill(~seen, 0.0)
    deviations = (squares.sum(-1) / count.clamp(min=1)).sqrt()
    return float(deviations[count > 0].mean())


def score_spreads(model: Any, prompts: Prompts) -> dict[int, float]:
    """The spread of each attention layer's scores on some prompts, by the layer's index."""
    if attention_path(model) == "eager":
        captured = capture(model, prompts.ids, prompts.positions)
        return {
            layer: spread_of(captured.scores[:, place])
            for place, layer in enumerate(captured.layers)
        }
    recorder = Recorder(prompts.positions, 0, _spread_of_rows)
    recorded_logits(model, prompts.ids, prompts.positions[-1:], recorder)
    return recorder.kept


def match_spreads(model: Any, wanted: Mapping[int, float], prompts: Prompts) -> None:
    """Rescales the model's queries in place until each layer's spread is the wanted one.

    From the first layer to the last, since what a layer reads depends on those before it. Refuses
    a layer whose spread is more than 1 % off afterwards.
    """
    for layer, spread in wanted.items():
        if not spread > 0:
            sentence = f"needed scores that differ between keys, came a spread of {spread:.4g}"
            raise Refusal(sentence, where=f"layer {layer}")
    if attention_path(model) == "eager":
        _match_layer_by_layer(model, wanted, prompts)
    else:
        matcher = _Matcher(prompts.positions, wanted)
        recorded_logits(model, prompts.ids, prompts.positions[-1:], matcher)
        for layer, factor in matcher.kept.items():
            scale_queries(matcher.modules[layer], factor, config=model.config)
    for layer, found in score_spreads(model, prompts).items():
        if not abs(found - wanted[layer]) <= TOLERANCE * wanted[layer]:
            raise Refusal(
                f"the spread of scores could not be matched: {found:.4g}, needed "
                f"{wanted[layer]:.4g}",
                where=f"layer {layer}",
            )


class _Matcher(Recorder):
    """Rescales each layer's queries inside one forward, before the next layer runs.

    It keeps the factor of each layer; whether a factor on the weights does the same is checked
    by another forward.
    """

    def __init__(self, rows: Tensor, wanted: Mapping[int, float]) -> None:
        super().__init__(rows, 0, None)
        self.wanted = wanted
        self.modules: dict[int, nn.Module] = {}

    def attend(self, call: LayerCall) -> Tensor:
        """The layer's output with rescaled queries."""
        self.calls[call.layer] += 1
        factor = self._factor(call)
        self.kept[call.layer], self.modules[call.layer] = factor, call.module
        return plain_output(call._replace(query=call.query * factor))

    def _factor(self, call: LayerCall) -> float:
        """Found in one step where scores are linear in the query, in more under a softcap."""
        keys, wanted = KeyValues(call.key, call.value), self.wanted[call.layer]
        factor = 1.0
        for _ in range(_ROUNDS):
            scores = score_rows(call.query * factor, keys, self.rows, call.rule).scores
            found = spread_of(scores)
            if abs(found - wanted) <= TOLERANCE / 10 * wanted:
                break
            factor *= _step(found, wanted, call.layer)
        return factor


def _match_layer_by_layer(model: Any, wanted: Mapping[int, float], prompts: Prompts) -> None:
    """For families whose attention cannot be reached inside the forward: forwards a layer."""
    holders = query_holders(model)
    if len(holders) != len(wanted):
        sentence = f"needed query weights in {len(wanted)} layers, found them in {len(holders)}"
        raise Refusal(sentence, where=type(model).__name__)
    for layer, holder in zip(sorted(wanted), holders, strict=True):
        for _ in range(_ROUNDS):
            found = score_spreads(model, prompts)[layer]
            if abs(found - wanted[layer]) <= TOLERANCE / 4 * wanted[layer]:
                break
            scale_queries(holder, _step(found, wanted[layer], layer), config=model.config)


def _step(found: float, wanted: float, layer: int) -> float:
    if not found > 0:
        sentence = f"a spread of scores of {found:.4g} cannot be made {wanted:.4g}"
        raise Refusal(sentence, where=f"layer {layer}")
    return wanted / found


def _spread_of_rows(rows: LayerRows) -> float:
    return spread_of(rows.scores)
