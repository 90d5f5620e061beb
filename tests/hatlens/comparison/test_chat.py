"""A comparison in a chat template: all runs read the same turns behind the same header."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from hatlens.comparison.cell import learning_of
from hatlens.comparison.config import build_similarity
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.feed import Fed, drawn_source, feed
from hatlens.comparison.fitting import learn
from hatlens.comparison.study import run_similarity
from probes.finetune_loss import cross_entropy, lesson, lesson_logits
from probes.models import LoadedModel, load_model
from probes.three_runs import run_conditions
from probes.three_runs_context import context_record
from probes.three_runs_queries import Condition
from prompts.refusal import Refusal
from tests.hatlens.comparison.tiny_task import SETTINGS
from tests.probes.model_files import peaky
from tests.prompts.chat_tokenizers import TEMPLATES, chat_tokenizer

CHAT = {**SETTINGS, "template": "chat", "twins": (), "queries": 9, "sets": 1}


def write_chat_model(folder: Path, family: str, *, positions: int = 1024) -> str:
    """Two layers; the template prints a begin mark and a day before the first turn."""
    tokenizer = chat_tokenizer(TEMPLATES["dated"])
    model: Any
    if family == "llama":
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=16,
                intermediate_size=32,
                num_attention_heads=2,
                num_key_value_heads=1,
                num_hidden_layers=2,
                max_position_embeddings=positions,
            )
        )
    else:
        config = GPT2Config(
            vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=positions
        )
        model = GPT2LMHeadModel(config)
    peaky(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_chat_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def loaded(model: str) -> LoadedModel:
    return load_model(model)


def fed_with(loaded: LoadedModel, task: object, **changed: Any) -> Fed:
    config = build_similarity({**CHAT, "task": str(task), **changed})
    return feed(config, drawn_source(config), loaded)


def test_everything_that_is_fed_has_the_header_once(loaded: LoadedModel, task: Path) -> None:
    one = fed_with(loaded, task).sets[0]
    assert one.other is not None
    assert one.task is not None
    lead = [one.prompts.bos]
    runs = [np.r_[lead, before, one.prompts.in_context[0]] for before in one.before.values()]
    runs += [np.r_[lead, one.prompts.queries[0]]]
    runs += [*one.prompts.alone, *one.other.alone, *one.task.alone]
    said = [loaded.tokenizer.decode(ids) for ids in runs]
    assert all(text.count("Today is 01 January 2025.") == 1 for text in said)
    assert all(text.startswith("<s>Today is") for text in said)
    irrelevant = one.before["irrelevant"]
    assert len(irrelevant) == sum(map(len, one.prompts.demonstrations))


def test_the_loss_counts_turns_and_not_the_header(loaded: LoadedModel, task: Path) -> None:
    prompts = fed_with(loaded, task).sets[0].prompts
    config = build_similarity({**CHAT, "task": str(task)})
    tuned = learn(config, loaded, lessons_of(prompts), 0.1)
    # <s> and the header are read but not learnt: the first turn's mark is the first token counted.
    start = 1 + prompts.header
    assert loaded.tokenizer.decode(prompts.alone[0][start:]).startswith("<|im_start|>user\nT: ")
    taught = lesson(prompts.alone[0], slice(start, None))
    by_hand = float(cross_entropy(lesson_logits(loaded.model, taught), taught))
    assert_allclose(tuned.base_losses[0], by_hand, rtol=1e-5)
    label = learn(
        build_similarity({**CHAT, "loss_tokens": "label"}), loaded, lessons_of(prompts), 0
    )
    assert abs(label.base_losses[0] - by_hand) > 1e-3


def test_the_header_is_no_demonstration_token(loaded: LoadedModel, task: Path) -> None:
    prompts = fed_with(loaded, task).sets[0].prompts
    config = build_similarity({**CHAT, "task": str(task)})
    tuned = learn(config, loaded, lessons_of(prompts), 0.1, online=True)
    learning = learning_of(prompts, tuned)
    every = np.concatenate(prompts.demonstrations)
    # Every token of every turn was learnt, none of the header.
    assert_array_equal(learning.shown, np.arange(prompts.header, len(every)))
    assert_array_equal(learning.ids, every[prompts.header :])
    whole, own = (context_record(loaded, prompts, skip=n) for n in (0, prompts.header))
    assert_array_equal(whole.keys[:, prompts.header :], own.keys)
    assert np.abs(whole.update - own.update).max() > 1e-3


def test_a_query_alone_is_the_whole_chat_of_that_query(loaded: LoadedModel, task: Path) -> None:
    prompts = fed_with(loaded, task).sets[0].prompts
    shown = np.concatenate(prompts.demonstrations)
    conditions = {"zsl": Condition(shown[:0]), "icl": Condition(shown)}
    for item in run_conditions(loaded, prompts, conditions):
        for run, ids in (
            ("zsl", prompts.queries[item.query]),
            ("icl", np.r_[shown, prompts.in_context[item.query]]),
        ):
            whole = lesson(np.r_[[prompts.bos], ids], slice(None))
            last = lesson_logits(loaded.model, whole)[-1].log_softmax(-1).detach().numpy()
            assert_allclose(item.runs[run].next_logp, last, atol=2e-4)
        # Scores are over the query's turn, in every run the same tokens.
        turn = len(prompts.in_context[item.query])
        assert item.runs["zsl"].scores.shape[-1] == item.runs["icl"].scores.shape[-1] == turn


def test_a_comparison_runs_in_a_chat(model: str, task: Path, tmp_path: Path) -> None:
    name = "own" if "llama" in model else "regression"
    asked = {"task": str(task) if name == "own" else name, "kate_queries": 3, "orders": 2}
    result = run_similarity(build_similarity({**CHAT, "model": model, **asked}), tmp_path / "run")
    facts = result["prompts"]["template"]
    assert facts["kind"] == "chat"
    assert facts["header"] == "<s>Today is 01 January 2025.\n"
    assert "<|im_start|>assistant\n" in facts["asked"]
    assert result["prompts"]["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n")
    found = {(one["name"], one["variant"]): one for one in result["metrics"]}
    assert np.isfinite(found["SimAOU", "orthogonal"]["matched"].estimate)
    assert result["kate"]["sentence"]
    if name == "own":
        assert list(result["prompts"]["labels"]["pieces"]) == ["No", "Yes"]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_window_may_be_full_to_its_last_token(family: str, tmp_path: Path) -> None:
    asked = {**CHAT, "task": "regression", "demos": 3, "queries": 2, "codec": "unsigned-integer"}
    wide = load_model(write_chat_model(tmp_path / "wide", family))
    prompts = fed_with(wide, **asked).sets[0].prompts
    full = 1 + sum(map(len, prompts.demonstrations))
    full += max(
        len(ids) + len(label)
        for ids, (label,) in zip(prompts.in_context, prompts.labels, strict=True)
    )
    for short in (0, 1):
        folder = write_chat_model(tmp_path / f"short-{short}", family, positions=full - short)
        build = build_similarity({**asked, "model": folder})
        result = run_similarity(build, tmp_path / f"run-{short}")
        assert result["prompts"]["used"] == [3 - short]
        assert result["failures"] == []


def test_a_model_without_a_template_and_a_policy_for_bos_are_refused(
    gpt2: str, task: Path, tmp_path: Path
) -> None:
    asked = {**CHAT, "model": gpt2, "task": str(task)}
    with pytest.raises(Refusal, match="the tokenizer has no chat template; use --template plain"):
        run_similarity(build_similarity(asked), tmp_path / "run")
    with pytest.raises(Refusal, match="bos 'always'"):
        run_similarity(build_similarity({**asked, "bos": "always"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
