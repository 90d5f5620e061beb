"""Settings that are given in vain are named."""

import pytest

from hatlens.comparison.config import PRESETS, SimilarityConfig, build_similarity
from hatlens.comparison.without_effect import IDLE, QUERIES, without_effect


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"step_norm": "shared"}, "step_norm"),
        ({"readout": "attention"}, "readout"),
        ({"layer_loss": "mean"}, "layer_loss"),
        ({"lr": 0.1, "lr_split": "evaluation"}, "lr_split"),
        ({"task": "regression", "balanced": True}, "balanced"),
        ({"task": "regression", "label_score": "mean"}, "label_score"),
        ({"order_queries": 9}, "order_queries"),
        ({"twins": (), "twin_seeds": (1,)}, "twin_seeds"),
        ({"other_task": "mr", "noise": 0.5}, "noise"),
        ({"kate_queries": 12}, "kate_queries"),
        ({"vector_queries": 12}, "vector_queries"),
    ],
)
def test_what_is_given_in_vain_is_named(values: dict[str, object], name: str) -> None:
    (said,) = without_effect(build_similarity(values), 10)
    assert name in said


@pytest.mark.parametrize(
    "values",
    [
        {"ft": "lcgd", "step_norm": "shared", "readout": "attention", "layer_loss": "mean"},
        {"dose": True, "readout": "attention"},
        {"lr_split": "evaluation"},
        {"orders": 10, "order_queries": 9},
        {"task": "regression", "noise": 0.5},
        {"kate_queries": 10},
        *({"preset": name} for name in PRESETS),
    ],
)
def test_what_counts_is_not_named(values: dict[str, object]) -> None:
    assert without_effect(build_similarity(values), 10) == []


def test_the_names_are_those_of_settings() -> None:
    assert {*IDLE, *QUERIES} <= set(SimilarityConfig.model_fields)
