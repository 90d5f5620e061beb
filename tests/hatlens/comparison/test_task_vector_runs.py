"""What the vectors are made of, against the models' own hidden states of whole prompts."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from analysis.design import Floats
from hatlens.comparison import task_vector
from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.feed import SetFeed, Source, drawn_source, feed, other_prompts, tokens_of
from hatlens.comparison.task_vector import (
    CONTROLS,
    NEUTRAL,
    OTHER,
    SHUFFLED,
    Made,
    before_of,
    controls_of,
    own_vector,
    run_vector,
    shuffled,
)
from hatlens.progress import silent
from probes.models import LoadedModel, load_model
from probes.task_vector import Patch, patched_label_logp
from prompts.tasks.tokens import TaskPrompts
from tests.hatlens.comparison.tiny_task import SETTINGS

A = slice(0, 4)


class Given(NamedTuple):
    """All that a run with a vector is given."""

    config: SimilarityConfig
    source: Source
    loaded: LoadedModel
    fed: SetFeed


@pytest.fixture(scope="module")
def given(gpt2: str, task: Path) -> Given:
    values = {**SETTINGS, "sets": 1, "queries": 12, "vector_queries": 12}
    config = build_similarity({**values, "model": gpt2, "task": str(task)})
    source, loaded = drawn_source(config), load_model(gpt2)
    return Given(config, source, loaded, feed(config, source, loaded).sets[0])


def first_states(loaded: LoadedModel, prompts: TaskPrompts, before: Any = None) -> Floats:
    """Mean over queries of the state after the first layer, by the model's own hidden states."""
    lead = [] if prompts.bos is None else [prompts.bos]
    found = []
    for alone, behind in zip(prompts.queries, prompts.in_context, strict=True):
        ids = np.r_[lead, alone] if before is None else np.r_[lead, before, behind]
        with torch.no_grad():
            seen = loaded.model(
                torch.as_tensor(ids.astype(np.int64))[None], output_hidden_states=True
            )
        found.append(seen.hidden_states[1][0, -1].double().numpy())
    return np.asarray(np.mean(found, axis=0))


def assert_made(one: Made, behind: Floats, alone: Floats) -> None:
    np.testing.assert_allclose(one.vector("replace", 0), behind, atol=1e-4)
    np.testing.assert_allclose(one.vector("add", 0), behind - alone, atol=1e-4)
    assert np.abs(behind - alone).max() > 1e-3


def test_the_vector_is_what_the_demonstrations_leave_at_the_last_token(given: Given) -> None:
    first = given.fed.prompts.only(range(A.stop))
    behind = first_states(given.loaded, first, before_of(first))
    assert_made(own_vector(given.loaded, first), behind, first_states(given.loaded, first))


def test_controls_are_made_alike_behind_other_text(given: Given) -> None:
    config, source, loaded, fed = given
    first = fed.prompts.only(range(A.stop))
    made, alone = controls_of(config, source, loaded, fed, first), first_states(loaded, first)
    assert [len(made[name]) for name in (OTHER, SHUFFLED, NEUTRAL)] == [1, 3, 1]
    neutral = first_states(loaded, first, fed.before["irrelevant"])
    assert_made(made[NEUTRAL][0], neutral, alone)
    shown = source.drawn.sets[0].demonstrations
    dealt = shuffled(shown, np.random.default_rng([config.seed, 11]))
    for one, demonstrations in zip(made[SHUFFLED], dealt, strict=True):
        prompts = tokens_of(config, source, loaded, demonstrations, source.queries[0][A])
        assert_made(one, first_states(loaded, prompts, before_of(prompts)), alone)
    other = other_prompts(config, loaded, queries=4)
    behind = first_states(loaded, other, before_of(other))
    assert_made(made[OTHER][0], behind, first_states(loaded, other))


def test_every_control_is_put_where_the_vector_is(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, list[Patch]]] = []

    def spied(loaded: Any, prompts: TaskPrompts, patches: list[Patch]) -> Any:
        calls.append((len(prompts.queries), list(patches)))
        return patched_label_logp(loaded, prompts, patches)

    monkeypatch.setattr(task_vector, "patched_label_logp", spied)
    cell = run_vector(*given, silent)
    (on_a, tried), (on_b, put) = calls
    assert (on_a, on_b) == (4, 8)
    assert [(one.how, one.layer) for one in tried] == [
        ("add", 0),
        ("add", 1),
        ("replace", 0),
        ("replace", 1),
    ]
    place = str(cell["way"]), int(cell["layer"])
    assert {(one.how, one.layer) for one in put} == {place}
    assert len(put) == 1 + 5 + 1 + 3 + 1
    norms = [float(np.linalg.norm(one.vector)) for one in put]
    assert norms[1:6] == pytest.approx([norms[0]] * 5)
    chosen = next(one for one in tried if (one.how, one.layer) == place)
    np.testing.assert_array_equal(put[0].vector, chosen.vector)
    again = patched_label_logp(given.loaded, given.fed.prompts.only(range(4, 12)), put)
    stored = np.concatenate([cell[f"b/{name}"] for name in ("vector", *CONTROLS)])
    np.testing.assert_allclose(stored, np.moveaxis(again, 1, 0), atol=1e-5)
