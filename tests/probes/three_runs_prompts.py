"""A small task by hand, and whole prompts to hold its runs against."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.finetune import fine_tune
from probes.finetune_result import FineTuned
from probes.head_values import output_projections
from probes.run_records import RunRecord
from probes.three_runs import three_runs
from tests.probes.finetune_models import demonstrations
from tests.probes.tiny_models import loaded

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class HandMadePrompts:
    """Three demonstrations, each ending in token 63, and five queries with three labels."""

    bos: int | None
    demonstrations: tuple[Tokens, ...]
    alone: tuple[Tokens, ...]
    alone_answers: tuple[slice, ...]
    queries: tuple[Tokens, ...]
    in_context: tuple[Tokens, ...]
    labels: tuple[tuple[Tokens, ...], ...]
    header: int = 0


def hand_made(bos: int | None = 1) -> HandMadePrompts:
    texts = demonstrations(6, 4, 7, seed=3)
    before = [] if bos is None else [bos]
    queries = demonstrations(5, 3, 5, 6, 3, seed=20)
    alone = tuple(np.array([*before, *text]) for text in texts)
    return HandMadePrompts(
        bos=bos,
        demonstrations=tuple(np.array([*text, 63]) for text in texts),
        alone=alone,
        alone_answers=tuple(slice(len(tokens) - 1, len(tokens)) for tokens in alone),
        queries=queries,
        # Behind other text the first word is cut otherwise, and most have a separator (62).
        in_context=(np.r_[61, queries[0][1:]], *(np.r_[62, 61, one[1:]] for one in queries[1:])),
        labels=((np.array([7]), np.array([8, 9]), np.array([8, 10, 11])),) * 5,
    )


def learn(model: Any, prompts: HandMadePrompts, **options: Any) -> FineTuned:
    return fine_tune(
        loaded(model), prompts.alone, prompts.alone_answers, **{"rate": 1e-2, **options}
    )


def all_runs(model: Any, prompts: HandMadePrompts, **options: Any) -> list[dict[str, RunRecord]]:
    tuned = options.pop("tuned", None) or learn(model, prompts)
    found = {r.query: r.runs for r in three_runs(loaded(model), prompts, tuned, **options)}
    assert sorted(found) == list(range(len(prompts.queries)))
    return [dict(found[query]) for query in range(len(found))]


class Whole:
    """A whole prompt in one eager forward: attention outputs, log-weights and log-probabilities."""

    def __init__(self, model: Any, tokens: Any, **options: Any) -> None:
        former = model.config._attn_implementation
        if former != "eager":
            model.set_attn_implementation("eager")
        outputs: list[Tensor] = []
        hooks = [
            part.register_forward_hook(lambda _, __, output: outputs.append(output[0]))
            for part in output_projections(model).values()
        ]
        ids = torch.as_tensor(np.asarray(tokens))[None]
        with torch.no_grad():
            found = model(input_ids=ids, output_attentions=True, use_cache=False, **options)
        for hook in hooks:
            hook.remove()
        if former != "eager":
            model.set_attn_implementation(former)
        self.h = torch.stack(outputs).numpy()  # (layer, token, width)
        self.log_weights = torch.stack([a[0] for a in found.attentions]).log().numpy()
        self.logp = found.logits[0].float().log_softmax(-1).numpy()


def before(prompts: HandMadePrompts, *, shown: bool) -> list[int]:
    bos = [] if prompts.bos is None else [prompts.bos]
    return [*bos, *np.concatenate(prompts.demonstrations)] if shown else bos


def centred(rows: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[Any]:
    """Less the mean of the kept keys of each row; 0 at the others (outside the window)."""
    few = np.where(kept, rows, 0.0)
    return np.where(kept, few - few.sum(-1, keepdims=True) / kept.sum(-1, keepdims=True), 0.0)


def assert_is(record: RunRecord, whole: Whole, own: int, *, scores: bool = True) -> None:
    """Equal to 1e-5 of the largest number (these models' go up to 10 or more)."""
    atol = 1e-5 * max(1.0, float(np.abs(whole.h).max()))
    np.testing.assert_allclose(record.h, whole.h[:, -1], atol=atol, rtol=1e-4)
    assert record.scores.shape[-1] == own
    if scores:
        # A softmax leaves scores up to a constant, as long as their weight does not vanish.
        wanted = whole.log_weights[:, :, -1, -own:]
        kept = wanted > -60
        assert (kept.sum(-1) > 1).any()
        ours, theirs = (centred(rows, kept) for rows in (record.scores, wanted))
        np.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=1e-4)
