"""Whole comparisons of models whose answer is known: one that cannot see its demonstrations, and
one whose fine-tuning is its in-context learning."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import GPTNeoConfig, GPTNeoForCausalLM, MistralConfig, MistralForCausalLM

from analysis.similarity.verdict import MORE, NO_MORE, NOT_ASSESSABLE
from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import run_similarity
from probes.three_runs import three_runs
from tests.hatlens.comparison.tiny_task import SETTINGS
from tests.probes.model_files import peaky
from tests.prompts.small_tokenizers import single_digits

Result = dict[str, Any]


def saved(model: Any, folder: Path) -> str:
    peaky(model).save_pretrained(folder)
    single_digits().save_pretrained(folder)
    return str(folder)


def blind_rotary(folder: Path) -> str:
    """One layer with a window of 4, less than the query is long."""
    config = MistralConfig(
        vocab_size=len(single_digits()),
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=1,
        max_position_embeddings=1024,
        sliding_window=4,
    )
    return saved(MistralForCausalLM(config), folder)


def blind_absolute(folder: Path) -> str:
    """One layer with learnt positions: the prompt's length alone moves outputs and scores."""
    config = GPTNeoConfig(
        vocab_size=len(single_digits()),
        hidden_size=32,
        num_layers=1,
        num_heads=4,
        window_size=4,
        attention_types=[[["local"], 1]],
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=0,
    )
    return saved(GPTNeoForCausalLM(config), folder)


def compared(model: str, task: Path, out: Path, **changed: Any) -> Result:
    values = {**SETTINGS, "model": model, "task": str(task), "twins": (), "lr": 0.1, **changed}
    return run_similarity(build_similarity(values), out)


def lines(result: Result) -> dict[str, Result]:
    return {" ".join((one["name"], one["variant"])).strip(): one for one in result["metrics"]}


def test_a_model_that_sees_no_demonstration_has_no_update(task: Path, tmp_path: Path) -> None:
    """Its outputs differ by rounding only: nothing is defined, and nothing is claimed."""
    model = blind_rotary(tmp_path / "model")
    result = compared(model, task, tmp_path / "run", sets=1, queries=8)
    found = lines(result)
    outputs = ("SimAOU orthogonal", "SimAOU", "SimAOU normalised")
    others = ("SimAM-delta", "SimAM-delta centred", "Kendall queries", "Delta W", "Delta W norm")
    for key in (*outputs, *others):
        undefined = found[key]["undefined"]
        assert undefined["count"] == undefined["of"] == 8, key
        assert np.isnan(found[key]["difference"].estimate)
    assert found["update norm ICL"]["matched"].high < 1e-5
    assert found["update norm FT"]["matched"].estimate > 0.01
    assert found["total variation ICL, ZSL"]["matched"].high < 1e-4
    assert result["verdict"]["label"] == NOT_ASSESSABLE
    assert "an update is zero" in result["verdict"]["sentence"]
    assert result["accuracy"]["icl"] == result["accuracy"]["zsl"]


def test_a_model_that_only_counts_its_demonstrations_is_no_more_alike(
    task: Path, tmp_path: Path
) -> None:
    """ICL moves outputs by the query's place alone, which D and D' do alike: the difference is 0
    within its interval, however far apart ICL and ZSL are."""
    model = blind_absolute(tmp_path / "model")
    result = compared(model, task, tmp_path / "run", queries=12, sets=5)
    found = lines(result)
    assert found["update norm ICL"]["matched"].estimate > 0.5
    primary = found["SimAOU orthogonal"]
    assert primary["difference"].low <= 0 <= primary["difference"].high
    assert primary["undefined"]["count"] == 0
    assert result["verdict"]["label"] == NO_MORE
    assert [one["says"] for one in result["verdict"]["measures"]].count(MORE) == 0
    assert np.isnan(found["Kendall queries"]["matched"].estimate)


def test_fine_tuning_that_is_in_context_learning_is_found(
    gpt2: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record of FT is that of ICL, as if it had learnt just that; FT on D' is as it is."""

    def same(*args: Any, **options: Any) -> Iterator[Any]:
        for item in three_runs(*args, **options):
            icl, ft = item.runs["icl"], item.runs["ft"]
            # The sum of v k' is no part of a run's likeness; ICL's would be that of other keys.
            alike = icl._replace(update=ft.update)
            yield item._replace(runs={**item.runs, "ft": alike})

    monkeypatch.setattr("hatlens.comparison.cell.three_runs", same)
    result = compared(gpt2, task, tmp_path / "run", queries=12, sets=5)
    found = lines(result)
    for key in ("SimAOU orthogonal", "SimAOU", "SimAOU normalised", "SimAM", "SimAM-delta"):
        np.testing.assert_allclose(found[key]["matched"], 1, atol=1e-6, err_msg=key)
        np.testing.assert_allclose(found[key]["by_layer"], 1, atol=1e-6, err_msg=key)
    assert tuple(found["top-10 overlap"]["matched"]) == (1, 1, 1)
    assert tuple(found["total variation"]["matched"]) == (0, 0, 0)
    assert found["SimAOU orthogonal"]["mismatched"].high < 0.9
    assert result["verdict"]["label"] == MORE
    assert result["accuracy"]["icl"] == result["accuracy"]["ft"]
    fixed = result["rec2ftp"]
    assert fixed["numerator"] == fixed["denominator"]
