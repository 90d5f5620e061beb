"""What every run is fed: the same demonstrations in the same order, and what stands beside."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatlens.comparison.config import build_similarity
from hatlens.comparison.feed import (
    Fed,
    drawn_source,
    feed,
    further_orders,
    wrong_labels,
)
from hatlens.config import build_config
from hatlens.measure import first_prompts
from hatlens.sets import draw_sets
from probes.models import LoadedModel, load_model
from prompts.tasks.task import TASKS, Example
from tests.hatlens.comparison.tiny_task import SETTINGS


@pytest.fixture(scope="module")
def loaded(gpt2: str) -> LoadedModel:
    return load_model(gpt2)


def fed_with(loaded: LoadedModel, task: object, **changed: Any) -> Fed:
    config = build_similarity({**SETTINGS, "task": str(task), **changed})
    return feed(config, drawn_source(config), loaded)


def text(loaded: LoadedModel, tokens: Any) -> str:
    return str(loaded.tokenizer.decode(list(tokens)))


def test_icl_and_ft_see_the_same_in_the_same_order(loaded: LoadedModel, task: Path) -> None:
    for one in fed_with(loaded, task, demos=4, sets=3).sets:
        shown = "".join(text(loaded, d) for d in one.prompts.demonstrations)
        assert shown == " ".join(text(loaded, d) for d in one.prompts.alone)


def test_other_runs_have_as_many_tokens_or_the_same_lines(loaded: LoadedModel, task: Path) -> None:
    one = fed_with(loaded, task, demos=4).sets[0]
    assert set(one.before) == {"irrelevant", "icl-wrong", "icl-order", "icl-other"}
    lines = [text(loaded, d) for d in one.prompts.alone]
    order = text(loaded, one.before["icl-order"])
    assert sorted(order.split("T: ")) == sorted(" ".join(lines).split("T: ")) or all(
        line in order for line in lines
    )
    assert order != " ".join(lines)
    wrong = text(loaded, one.before["icl-wrong"])
    swapped = [line[:-2] + "Yes" if line.endswith("No") else line[:-3] + "No" for line in lines]
    assert wrong == " ".join(swapped)
    assert len(one.before["irrelevant"]) == sum(len(d) for d in one.prompts.demonstrations)
    assert one.other is not None
    assert one.task is not None
    assert len(one.other.alone) == len(one.task.alone) == 4
    others = [text(loaded, d) for d in one.other.alone]
    assert not set(others) & set(lines)
    assert text(loaded, one.before["icl-other"]) == " ".join(others)


def test_more_queries_change_no_set(loaded: LoadedModel, task: Path) -> None:
    few, many = (fed_with(loaded, task, queries=count) for count in (2, 9))
    for one, other in zip(few.sets, many.sets, strict=True):
        for a, b in zip(one.prompts.alone, other.prompts.alone, strict=True):
            np.testing.assert_array_equal(a, b)
        for name in one.before:
            np.testing.assert_array_equal(one.before[name], other.before[name])


def test_regression_lines_are_those_of_the_study(loaded: LoadedModel) -> None:
    """The first prompts of `hatlens probe` with the same settings, less the answer's blank."""
    fed = fed_with(loaded, "regression", demos=6, queries=3)
    study = build_config({"examples": 6, "queries": 3, "contexts": 5, "pairs": 0})
    printed = first_prompts(study, draw_sets(study))[:2]
    for one, wanted in zip(fed.sets, printed, strict=True):
        tokens = np.concatenate([*one.prompts.demonstrations, one.prompts.in_context[0]])
        assert text(loaded, tokens) == wanted.rstrip(" ")
        assert one.prompts.label_words == ("the right answer",)


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_every_label_is_wrong(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = list(TASKS["agnews"].words)
    demos = [Example({"text": str(i)}, str(rng.choice(labels)), "") for i in range(count)]
    made = wrong_labels(TASKS["agnews"], demos, rng)
    assert made is not None
    for one, other in zip(demos, made, strict=True):
        assert one.fields == other.fields
        assert one.label != other.label
        assert other.label in labels


def test_every_label_is_wrong_in_a_file_called_regression() -> None:
    own = replace(TASKS["subj"], name="regression")
    demos = [Example({"text": str(i)}, list(own.words)[i % 2], "") for i in range(12)]
    made = wrong_labels(own, demos, np.random.default_rng(0))
    assert made is not None
    assert all(one.label != other.label for one, other in zip(demos, made, strict=True))


@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_orders_are_other_orders(count: int, orders: int, seed: int) -> None:
    found = further_orders(count, orders, np.random.default_rng(seed))
    assert len(found) == orders
    for order in found:
        assert sorted(order) == list(range(count)) != list(order)
    more = further_orders(count, orders + 1, np.random.default_rng(seed))
    assert more[:orders] == found
