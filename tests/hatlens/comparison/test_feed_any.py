"""Any window, number of demonstrations and seed: every run of a set holds the same lines."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hatlens.comparison.config import build_similarity
from hatlens.comparison.feed import Fed, drawn_source, feed
from probes.models import LoadedModel, load_model
from prompts.refusal import Refusal

LIGHT = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def loaded(gpt2: str) -> LoadedModel:
    return load_model(gpt2)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty texts of one to twelve words."""
    folder, rng = tmp_path_factory.mktemp("task"), np.random.default_rng(3)
    items = [
        {
            "text": " ".join(rng.choice(["ash", "bay", "élan", "7"], 1 + i % 12)) + f" {i}",
            "label": ("Y", "No")[int(rng.integers(2))],
        }
        for i in range(40)
    ]
    file = folder / "texts.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in items), encoding="utf-8")
    return file


def fed_with(loaded: LoadedModel, task: Path, *, window: int | None = None, **asked: Any) -> Fed:
    config = build_similarity({"task": str(task), "queries": 3, "sets": 2, **asked})
    narrow = loaded if window is None else replace(loaded, context_window=window)
    return feed(config, drawn_source(config), narrow)


def said(loaded: LoadedModel, tokens: Any) -> str:
    return str(loaded.tokenizer.decode(list(tokens)))


def drawn_lines(task: Path, **asked: Any) -> list[list[str]]:
    """What the demonstrations of each set say, as they were drawn."""
    config = build_similarity({"task": str(task), "queries": 3, "sets": 2, **asked})
    source = drawn_source(config)
    return [
        [source.task.demonstration(one) for one in drawn.demonstrations]
        for drawn in source.drawn.sets
    ]


@LIGHT
@given(st.integers(120, 700), st.integers(1, 9), st.integers(0, 2**31))
def test_every_run_of_a_set_holds_its_first_lines_in_their_order(
    loaded: LoadedModel, task: Path, window: int, demos: int, seed: int
) -> None:
    asked: dict[str, Any] = {"demos": demos, "seed": seed}
    try:
        fed = fed_with(loaded, task, window=window, **asked)
    except Refusal:
        assume(False)
    for place, (one, lines) in enumerate(zip(fed.sets, drawn_lines(task, **asked), strict=True)):
        used = fed.facts["used"][place]
        wanted = lines[:used]
        assert [said(loaded, ids) for ids in one.prompts.alone] == wanted
        assert said(loaded, np.concatenate(one.prompts.demonstrations)) == " ".join(wanted)
        assert used + fed.facts["dropped"][place] == demos
        if one.task is not None:
            assert len(one.task.alone) == used
        if "icl-order" in one.before:
            shown = said(loaded, one.before["icl-order"])
            assert sorted(shown) == sorted(" ".join(wanted))
        assert len(one.before["irrelevant"]) == sum(map(len, one.prompts.demonstrations))
        longest = max(
            len(behind) + max(map(len, labels))
            for behind, labels in zip(one.prompts.in_context, one.prompts.labels, strict=True)
        )
        assert sum(map(len, one.prompts.demonstrations)) + longest <= window


@LIGHT
@given(st.integers(1, 6), st.integers(0, 2**31), st.integers(0, 2**31))
def test_the_seed_decides_the_draw_and_nothing_else(
    loaded: LoadedModel, task: Path, demos: int, seed: int, other: int
) -> None:
    """The same seed gives the same tokens; under another one a text that is drawn again is the same
    tokens, and so are the labels."""
    one, again, two = (fed_with(loaded, task, demos=demos, seed=s) for s in (seed, seed, other))
    for a, b in zip(one.sets, again.sets, strict=True):
        for x, y in zip(a.prompts.alone, b.prompts.alone, strict=True):
            np.testing.assert_array_equal(x, y)
        assert a.before.keys() == b.before.keys()
        for name in a.before:
            np.testing.assert_array_equal(a.before[name], b.before[name])
    known = {said(loaded, ids): ids.tolist() for found in one.sets for ids in found.prompts.alone}
    for found in two.sets:
        for ids in found.prompts.alone:
            assert known.get(said(loaded, ids), ids.tolist()) == ids.tolist()
        assert found.prompts.label_words == one.sets[0].prompts.label_words
        for labels in found.prompts.labels:
            for x, y in zip(labels, one.sets[0].prompts.labels[0], strict=True):
                np.testing.assert_array_equal(x, y)
