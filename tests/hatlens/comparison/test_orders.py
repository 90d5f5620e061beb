"""Order sensitivity on a tiny model: of ICL, of step after step, and of one step on all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.feed import SetFeed, drawn_source, feed
from hatlens.comparison.orders import (
    order_cells,
    order_claim,
    orders_result,
    run_orders,
    stored_orders,
)
from hatlens.store import RunFolder
from probes.models import LoadedModel, load_model
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from tests.hatlens.comparison.tiny_task import SETTINGS


@pytest.fixture(scope="module")
def config(llama: str, task: Path) -> SimilarityConfig:
    return build_similarity({**SETTINGS, "orders": 4, "model": llama, "task": str(task)})


@pytest.fixture(scope="module")
def fed(config: SimilarityConfig) -> tuple[LoadedModel, tuple[SetFeed, ...]]:
    loaded = load_model(config.model)
    return loaded, feed(config, drawn_source(config), loaded).sets


@pytest.fixture(scope="module")
def folder(
    config: SimilarityConfig,
    fed: tuple[LoadedModel, tuple[SetFeed, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunFolder:
    made = RunFolder(tmp_path_factory.mktemp("orders") / "run")
    for name, one in zip(order_cells(config), fed[1], strict=True):
        made.write_arrays(name, run_orders(config, fed[0], one, 0.3))
    return made


def test_one_step_on_all_demonstrations_minds_no_order(
    config: SimilarityConfig, folder: RunFolder
) -> None:
    found = stored_orders(config, folder)
    assert found["full_batch"].shape == (2, 8)
    # Rounding of float32, against a change by fine-tuning of about the same size.
    assert found["full_batch_per_change"].max() < 1e-4
    assert found["ft_per_change"].min() > 0.01
    assert found["full_batch_change"].min() > 0.1


def test_the_sensitivity_of_prompts_is_a_sum_of_standard_deviations(
    config: SimilarityConfig, folder: RunFolder, fed: tuple[LoadedModel, tuple[SetFeed, ...]]
) -> None:
    loaded, (first, _) = fed
    none = np.zeros(0, dtype=np.int64)
    conditions = {f"{i}": Condition(tokens) for i, tokens in enumerate(first.order_tokens)}
    for item in run_conditions(loaded, first.prompts, {**conditions, "zsl": Condition(none)}):
        if item.query >= 8:
            continue
        p = {name: np.exp(run.next_logp.astype(np.float64)) for name, run in item.runs.items()}
        total = change = 0.0
        for word in range(len(p["zsl"])):
            values = [p[f"{i}"][word] for i in range(4)]
            mean = sum(values) / 4
            total += (sum((one - mean) ** 2 for one in values) / 3) ** 0.5
            change += sum(abs(one - p["zsl"][word]) for one in values) / 4
        found = stored_orders(config, folder)
        assert found["icl"][0, item.query] == pytest.approx(total, rel=1e-4)
        assert found["icl_change"][0, item.query] == pytest.approx(change, rel=1e-4)
        assert found["icl_per_change"][0, item.query] == pytest.approx(total / change, rel=1e-4)


def test_the_result_has_means_of_all_three(config: SimilarityConfig, folder: RunFolder) -> None:
    found: Any = orders_result(config, folder)
    assert (found["orders"], found["queries"]) == (4, 8)
    for run in ("icl", "ft", "full_batch"):
        for part in ("", "_per_change", "_change"):
            assert found[f"{run}{part}"].low <= found[f"{run}{part}"].high


def test_the_interval_of_a_mean_takes_whole_sets_and_queries(tmp_path: Path) -> None:
    """Five sets, of one number each: 200 cells say no more of a mean than five sets do."""
    config = build_similarity({"orders": 4, "order_queries": 40, "sets": 5})
    folder = RunFolder(tmp_path)
    for place, name in enumerate(order_cells(config)):
        folder.write_arrays(name, {"icl": np.full(40, float(place)), "ft": np.full(40, np.nan)})
    found: Any = orders_result(config, folder)
    assert found["icl"].estimate == 2
    assert found["icl"].high - found["icl"].low > 2
    assert np.isnan(found["ft"]).all()


def test_the_claim_is_judged_from_the_folder(config: SimilarityConfig, folder: RunFolder) -> None:
    assert "of 2 sets of demonstrations" in order_claim(config, folder).reason
    many = config.model_copy(update={"sets": 6})
    for place, name in enumerate(order_cells(many)):
        cell = folder.read_arrays(order_cells(config)[place % 2])
        folder.write_arrays(name, {key: part * (1 + place / 100) for key, part in cell.items()})
    found = order_claim(many, folder)
    assert found.reason == ""
    assert 0 < found.p <= 1
    assert "one step on all demonstrations" in found.figures
    assert "--orders 10" in order_claim(config.model_copy(update={"orders": 0}), folder).reason


def test_other_orders_are_other_cells(config: SimilarityConfig) -> None:
    """Settings that may change on a finished run must not find what was run under others."""
    cells = [
        set(order_cells(config.model_copy(update=change)))
        for change in ({}, {"orders": 5}, {"order_queries": 9})
    ]
    assert len(set.union(*cells)) == 3 * 2
    assert order_cells(config.model_copy(update={"orders": 1})) == []


def test_a_rate_that_diverges_leaves_prompts_alone(
    config: SimilarityConfig, fed: tuple[LoadedModel, tuple[SetFeed, ...]]
) -> None:
    cell = run_orders(config, fed[0], fed[1][0], 1e37)
    assert np.isnan(cell["ft"]).all()
    assert np.isnan(cell["full_batch_change"]).all()
    assert np.isfinite(cell["icl_per_change"]).all()


def test_one_demonstration_has_no_other_order(
    config: SimilarityConfig, fed: tuple[LoadedModel, tuple[SetFeed, ...]], tmp_path: Path
) -> None:
    alone = config.model_copy(update={"demos": 1, "sets": 1})
    (one,) = feed(alone, drawn_source(alone), fed[0]).sets
    cell = run_orders(alone, fed[0], one, 0.3)
    assert cell["icl"].shape == (8,)
    folder = RunFolder(tmp_path)
    folder.write_arrays(order_cells(alone)[0], cell)
    assert order_claim(alone, folder).reason == "one demonstration has no other order"
    folder.write_arrays(order_cells(alone)[0], {**cell, "icl": np.ones(8)})
    assert "diverged" in order_claim(alone, folder).reason
