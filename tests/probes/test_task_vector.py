"""Vectors at a prompt's last token: identities, whole prompts by plain hooks, and refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from probes.families import FAMILIES, tiny_config
from probes.residuals import layers_of
from probes.task_vector import (
    WAYS,
    How,
    LastStates,
    Patch,
    last_states,
    patched_label_logp,
    patching,
    refuse_unlike,
)
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition, Tokens, joined
from prompts.refusal import Refusal
from tests.probes.finetune_models import tiny_family, weights_hash
from tests.probes.three_runs_prompts import HandMadePrompts, hand_made
from tests.probes.tiny_models import build, loaded

NAMES = ("gpt2", "llama", "gpt-neox", "gemma2", "mistral", "phi3", "gpt-neo", "qwen3-next")
EVERY_WORD = tuple(np.array([word]) for word in range(64))


def every_word(prompts: HandMadePrompts) -> HandMadePrompts:
    """Each word of the vocabulary as a label, so that labels are the next token's distribution."""
    return replace(prompts, labels=(EVERY_WORD,) * len(prompts.queries))


def only(prompts: HandMadePrompts, query: int) -> HandMadePrompts:
    """One query of several."""
    some = slice(query, query + 1)
    return replace(
        prompts,
        queries=prompts.queries[some],
        in_context=prompts.in_context[some],
        labels=prompts.labels[some],
    )


def in_context(model: Any, prompts: HandMadePrompts) -> LastStates:
    return last_states(loaded(model), prompts, joined(prompts.demonstrations))


def patch(found: LastStates, layer: int, query: int = 0, how: How = "replace") -> Patch:
    return Patch(layer, found.states[query, layer], how)


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_the_own_prompts_stream_gives_its_prediction(name: str) -> None:
    """Replaced after the last layer, nothing of the query by itself is left."""
    model, prompts = tiny_family(name, scale=0.7), every_word(hand_made())
    icl, zsl = in_context(model, prompts), last_states(loaded(model), prompts)
    refuse_unlike(loaded(model), prompts, icl)
    for query in (0, 3):
        patches = [patch(icl, 1, query), patch(zsl, 0, query), patch(zsl, 1, query)]
        found = patched_label_logp(loaded(model), only(prompts, query), patches)[0]
        np.testing.assert_allclose(found[0], icl.next_logp[query], atol=1e-4)
        for nothing in found[1:]:
            np.testing.assert_allclose(nothing, zsl.next_logp[query], atol=1e-4)
        assert np.abs(found[0] - found[1]).max() > 0.01


def by_plain_hook(model: Any, tokens: Tokens, one: Patch, place: int) -> Any:
    """Log-probabilities (token, word) of a whole prompt, one token of it changed after a layer."""

    def change(_: Any, __: Any, output: Any) -> Any:
        states = output if isinstance(output, torch.Tensor) else output[0]
        kept = 1 if one.how == "add" else 0
        states[0, place] = kept * states[0, place] + torch.as_tensor(one.vector)
        return output

    handle = layers_of(model)[one.layer].register_forward_hook(change)
    with torch.no_grad():
        logits = model(input_ids=torch.as_tensor(tokens)[None], use_cache=False).logits
    handle.remove()
    return logits[0].float().log_softmax(-1).numpy()


@pytest.mark.parametrize("bos", [None, 1])
@pytest.mark.parametrize("name", NAMES)
def test_whole_labels_behind_a_patch_are_those_of_whole_prompts(name: str, bos: int | None) -> None:
    model, prompts = tiny_family(name, scale=0.7), hand_made(bos)
    rng = np.random.default_rng(0)
    patches = [Patch(layer, rng.normal(size=32), how) for layer in (1, 0) for how in WAYS]
    found = patched_label_logp(loaded(model), prompts, patches, block=3)
    assert found.shape == (5, 4, 3)
    lead = [] if bos is None else [bos]
    for query in (0, 4):
        tokens = np.r_[np.array(lead, dtype=np.int64), prompts.queries[query]]
        for place, one in enumerate(patches):
            for c, label in enumerate(prompts.labels[query]):
                logp = by_plain_hook(model, np.r_[tokens, label], one, len(tokens) - 1)
                rows = len(tokens) - 1 + np.arange(len(label))
                expected = logp[rows, label].sum()
                assert found[query, place, c] == pytest.approx(expected, abs=2e-4)


def test_adding_nothing_leaves_the_labels_of_the_query_by_itself() -> None:
    model, prompts = tiny_family("llama", scale=0.7), hand_made()
    found = patched_label_logp(loaded(model), prompts, [Patch(0, np.zeros(32))])[:, 0]
    alone = Condition(np.zeros(0, dtype=np.int64))
    for one in run_conditions(loaded(model), prompts, {"zsl": alone}):
        expected = one.runs["zsl"].label_logp[:, 0]
        np.testing.assert_allclose(found[one.query], expected, atol=1e-4)


def hooks_of(model: Any) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def test_weights_and_hooks_are_left_as_they_were_whatever_happens() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    before, hooks = weights_hash(model), hooks_of(model)
    states = in_context(model, prompts).states.copy()
    with pytest.raises(KeyError), patching(model, [Patch(1, states[0, 1])]):
        raise KeyError
    with pytest.raises(RuntimeError):
        patched_label_logp(loaded(model), prompts, [Patch(1, np.zeros(31))])
    assert (weights_hash(model), hooks_of(model)) == (before, hooks)
    np.testing.assert_array_equal(in_context(model, prompts).states, states)


def test_what_is_not_there_is_refused_in_a_sentence() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    with pytest.raises(Refusal, match="a layer from 0 to 1, came 2"):
        patched_label_logp(loaded(model), prompts, [Patch(2, np.zeros(32))])
    wrong: Any = Patch(1, np.zeros(32), "multiply")  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="way of patching"):
        patched_label_logp(loaded(model), prompts, [wrong])
    several = build(tiny_config(FAMILIES["gemma3n"]))
    with pytest.raises(Refusal, match="needed one stream of states"):
        last_states(loaded(several), prompts)


def test_a_prediction_that_goes_round_the_stream_is_refused() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    seen = in_context(model, prompts)
    other = seen.next_logp[:, ::-1].copy()
    with pytest.raises(Refusal, match="end of the residual stream alone, came 'gpt2'"):
        refuse_unlike(loaded(model), prompts, seen._replace(next_logp=other))
