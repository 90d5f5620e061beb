"""The runs of a query against whole prompts, one plain forward each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from probes.three_runs import run_conditions, three_runs
from probes.three_runs_queries import Condition
from prompts.refusal import Refusal
from tests.probes.finetune_models import demonstrations, tiny_family, weights_hash
from tests.probes.three_runs_prompts import (
    Whole,
    all_runs,
    assert_is,
    before,
    hand_made,
    learn,
)
from tests.probes.tiny_models import loaded, random_ids

FAMILIES = (
    "gpt2",
    "llama",
    "xglm",
    "gpt-neox",
    "phi3",
    "gpt-neo",
    "bloom",
    "mpt",
    "gpt-j",
    "qwen3",
    "gemma2",
    "gemma3",
    "mistral",
    "gpt-oss",
    "qwen3-next",
)
ALIBI = ("bloom", "mpt")


@pytest.mark.parametrize("name", FAMILIES)
def test_runs_equal_whole_prompts(name: str) -> None:
    model, prompts = tiny_family(name, scale=0.7), hand_made()
    tuned = learn(model, prompts)
    runs = all_runs(model, prompts, tuned=tuned, block=2)
    for query, tokens in enumerate(prompts.queries):
        plain = [*before(prompts, shown=False), *tokens]
        shown = [*before(prompts, shown=True), *prompts.in_context[query]]
        own, known = len(tokens), name not in ALIBI
        assert_is(runs[query]["icl"], Whole(model, shown), own, scores=known)
        assert_is(runs[query]["zsl"], Whole(model, plain), own, scores=known)
        with tuned.applied():
            assert_is(runs[query]["ft"], Whole(model, plain), own, scores=known)
    assert not np.allclose(runs[0]["ft"].h, runs[0]["zsl"].h, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "xglm", "mistral", "qwen3-next"])
@pytest.mark.parametrize("bos", [None, 1])
def test_labels_are_scored_whole(name: str, bos: int | None) -> None:
    model, prompts = tiny_family(name), hand_made(bos)
    runs = all_runs(model, prompts, block=2)
    for query in range(len(prompts.queries)):
        for run, shown, cut in (("icl", True, "in_context"), ("zsl", False, "queries")):
            start = [*before(prompts, shown=shown), *getattr(prompts, cut)[query]]
            record = runs[query][run]
            for place, label in enumerate(prompts.labels[query]):
                logp = Whole(model, [*start, *label]).logp
                each = [logp[len(start) - 1 + i, token] for i, token in enumerate(label)]
                np.testing.assert_allclose(record.label_logp[place, 0], sum(each), atol=1e-3)
                np.testing.assert_allclose(record.label_logp[place, 1], np.mean(each), atol=1e-3)
            np.testing.assert_allclose(record.next_logp, Whole(model, start).logp[-1], atol=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "llama", "xglm"])
def test_the_first_label_can_be_recorded_on(name: str) -> None:
    model = tiny_family(name)
    prompts = replace(hand_made(), labels=((np.array([7, 12]), np.array([8])),) * 5)
    runs = all_runs(model, prompts, position="label0")
    answers = all_runs(model, prompts)
    for query, tokens in enumerate(prompts.queries):
        whole = Whole(model, [*before(prompts, shown=True), *prompts.in_context[query], 7, 12])
        assert_is(runs[query]["icl"], whole, len(tokens) + 2)
        for part in ("label_logp", "next_logp"):
            ours, theirs = (getattr(r[query]["icl"], part) for r in (runs, answers))
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gpt-neox", "phi3", "qwen3", "gemma2", "gpt-j"])
def test_shifted_positions_change_nothing_under_rotation(name: str) -> None:
    runs = all_runs(tiny_family(name, scale=0.5), hand_made(), position_matched="shift")
    for run in runs:
        for part in ("h", "scores", "next_logp", "label_logp"):
            shifted, plain = (getattr(run[r], part) for r in ("zsl-matched", "zsl"))
            np.testing.assert_allclose(shifted, plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "xglm"])
def test_shifted_positions_are_those_behind_the_demonstrations(name: str) -> None:
    model, prompts = tiny_family(name, scale=0.7), hand_made()
    runs = all_runs(model, prompts, position_matched="shift")
    count = len(before(prompts, shown=True))
    for query, tokens in enumerate(prompts.queries):
        start = count + (0 if query == 0 else 1)
        positions = torch.arange(start - 1, start + len(tokens))[None]
        mask = torch.ones(1, len(tokens) + 1, dtype=torch.long)
        whole = Whole(model, [1, *tokens], position_ids=positions, attention_mask=mask)
        assert_is(runs[query]["zsl-matched"], whole, len(tokens))
        assert not np.allclose(runs[query]["zsl-matched"].h, runs[query]["zsl"].h, atol=1e-3)


def test_neutral_tokens_and_other_runs_stand_before_the_query() -> None:
    model, prompts = tiny_family("gpt2", scale=0.7), hand_made()
    neutral = random_ids(20, seed=77).numpy()
    other = learn(model, replace(prompts, alone=demonstrations(5, 5, 5, seed=90)))
    more = {"ft-other": Condition(neutral[:4], other)}
    runs = all_runs(model, prompts, position_matched=neutral, more=more)
    for query, tokens in enumerate(prompts.queries):
        whole = Whole(model, [1, *neutral, *prompts.in_context[query]])
        assert_is(runs[query]["zsl-matched"], whole, len(tokens))
        with other.applied():
            whole = Whole(model, [1, *neutral[:4], *prompts.in_context[query]])
        assert_is(runs[query]["ft-other"], whole, len(tokens))
    with pytest.raises(Refusal, match="needed 20 neutral tokens"):
        all_runs(model, prompts, position_matched=neutral[:7])
    with pytest.raises(Refusal, match="needed other names"):
        all_runs(model, prompts, more={"icl": Condition(neutral)})


def test_keys_outside_a_window_are_nan() -> None:
    """Mistral's window of 4: the last of 5 query tokens sees none of the demonstrations."""
    runs = all_runs(tiny_family("mistral"), hand_made())
    assert runs[0]["icl"].earlier is not None
    assert np.isnan(runs[0]["icl"].earlier).all()
    # The last of 3 query tokens sees the separator before them.
    earlier = runs[1]["icl"].earlier
    assert earlier is not None
    assert earlier.shape == (2, 4, 21)
    assert np.isnan(earlier[..., :-1]).all()
    assert np.isfinite(earlier[..., -1]).all()


def test_keys_outside_a_window_of_local_layers_are_nan() -> None:
    """GPT-Neo by turns: layer 0 sees everything, layer 1 a window of 4, like Mistral's."""
    runs = all_runs(tiny_family("gpt-neo"), hand_made())
    of_five, of_three = (runs[query]["icl"].earlier for query in (0, 1))
    assert of_five is not None
    assert of_three is not None
    assert np.isfinite(of_five[0]).all()
    assert np.isnan(of_five[1]).all()
    assert np.isfinite(of_three[0]).all()
    assert np.isnan(of_three[1, :, :-1]).all()
    assert np.isfinite(of_three[1, :, -1]).all()
    assert np.isfinite(runs[0]["icl"].scores).all()


def test_records_do_not_depend_on_blocks_or_chunks() -> None:
    model, prompts = tiny_family("llama"), hand_made()
    together = all_runs(model, prompts)
    for block, chunk in ((1, 1), (2, 3)):
        for a, b in zip(all_runs(model, prompts, block=block, chunk=chunk), together, strict=True):
            for run in a:
                np.testing.assert_allclose(a[run].h, b[run].h, atol=1e-4)
                np.testing.assert_allclose(a[run].label_logp, b[run].label_logp, atol=1e-4)


def test_the_base_weights_stand_between_queries_and_after_a_stop() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    found, tuned = weights_hash(model), learn(model, prompts)
    runs = three_runs(loaded(model), prompts, tuned, chunk=1)
    next(runs)
    assert weights_hash(model) == found
    del runs
    assert weights_hash(model) == found


def test_other_demonstrations_than_the_prompts_are_refused() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    turned = replace(prompts, alone=prompts.alone[::-1])
    for tuned in (learn(model, turned), learn(tiny_family("gpt2"), prompts)):
        with pytest.raises(Refusal, match="learnt the demonstrations of the prompt"):
            all_runs(model, prompts, tuned=tuned)


def test_prompts_that_cannot_be_run_are_refused() -> None:
    model, prompts = tiny_family("gpt2"), hand_made()
    long = {"icl": Condition(random_ids(60).numpy())}
    with pytest.raises(Refusal, match="needed prompts of at most 64 tokens, came one of 71"):
        list(run_conditions(loaded(model), prompts, long))
    with pytest.raises(Refusal, match="unknown position"):
        run_conditions(loaded(model), prompts, long, position="end")  # type: ignore[arg-type]
    empty = replace(prompts, labels=((np.array([7]), np.array([], dtype=np.int64)),) * 5)
    with pytest.raises(Refusal, match="query 0"):
        run_conditions(loaded(model), empty, long)
    for name, said in (("bloom", "takes position ids"), ("falcon-7b", "before its softmax")):
        with pytest.raises(Refusal, match=said):
            all_runs(tiny_family(name), prompts, position_matched="shift")
