"""On the default model: labels scored behind their prompt, and one small comparison."""

import json
from pathlib import Path

import numpy as np
import pytest

from hatlens.comparison.config import build_similarity
from hatlens.comparison.study import run_similarity
from probes.models import LoadedModel, load_model
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.task import TASKS, Example, Task
from prompts.tasks.tokens import tokenize_task

pytestmark = pytest.mark.model
SHOWN = (("a warm and funny film", "positive"), ("dull and far too long", "negative"))


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("smollm2-135m")


def label_logp(loaded: LoadedModel, task: Task) -> list[list[float]]:
    """Log-probabilities (class, sum and mean) behind two demonstrations."""
    demos = [Example({"text": text}, label, "") for text, label in SHOWN]
    query = Example({"text": "a small joy"}, next(iter(task.words)), "")
    prompts = tokenize_task(task, demos, [query], loaded.tokenizer)
    before = Condition(np.concatenate(prompts.demonstrations))
    (one,) = run_conditions(loaded, prompts, {"icl": before})
    found: list[list[float]] = one.runs["icl"].label_logp.tolist()
    return found


def test_labels_take_the_blank_before_them(loaded: LoadedModel) -> None:
    negative, positive = label_logp(loaded, TASKS["mr"])
    assert positive[0] == pytest.approx(np.log(0.623), abs=1e-2)
    assert negative[0] == pytest.approx(np.log(0.0115), abs=1e-2)
    assert positive[0] == positive[1]  # one token: the sum is the mean


def test_labels_of_several_tokens_by_sum_and_by_mean(loaded: LoadedModel) -> None:
    """positif has 2 pieces and négatif 4: the sum prefers the first, the mean the second."""
    words = {"negative": "Negative", "positive": "Positive", "p": "positif", "n": "négatif"}
    task = Task("french", TASKS["mr"].template, words)
    _, _, positif, negatif = label_logp(loaded, task)
    np.testing.assert_allclose(positif, [-18.24, -9.12], atol=2e-2)
    np.testing.assert_allclose(negatif, [-30.30, -7.57], atol=2e-2)


def test_four_demonstrations_and_four_queries(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    good, bad = ("warm", "funny", "fine", "bright"), ("dull", "long", "flat", "poor")
    rows = [
        {"text": f"{' and '.join(rng.choice((good, bad)[i % 2], 2))} {i}", "label": label}
        for i, label in enumerate(("positive", "negative") * 12)
    ]
    data = tmp_path / "reviews.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = build_similarity(
        {"task": "mr", "data": str(data), "demos": 4, "queries": 4, "sets": 1, "lr": 0.003}
        | {"twins": "none"}
    )
    result = run_similarity(config, tmp_path / "run")
    assert result["selfcheck"]["implicit_update_residual"] < 1e-5
    assert result["prompts"]["labels"]["pieces"] == {
        "Negative": [" Negative"],
        "Positive": [" Positive"],
    }
    norms = {one["run"]: one["relative_norm"] for one in result["fine_tuning"]}
    assert set(norms) == {"ft", "ft-other", "ft-task"}
    for norm in norms.values():
        assert norm == pytest.approx(norms["ft"], rel=0.2)
    by_key = {(one["name"], one["variant"]): one for one in result["metrics"]}
    assert len(by_key["SimAOU", "orthogonal"]["by_layer"]) == 30
    assert by_key["SimAOU", "orthogonal"]["undefined"]["count"] == 0
