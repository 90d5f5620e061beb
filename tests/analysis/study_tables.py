"""The tables of a made-up study: figures in the shape that a real run's tables have."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

PARTS = ("x", "y", "separator", "all")
HYPOTHESES = ("ols", "ridge(0.01)", "gd(16)", "kernel(1)", "lexical")
TWINS = (("score-scale-matched", 1), ("shuffled", 2))
SHARE = "unique_of_variance"
EXPLAINED = "unique_over_explained"


@dataclasses.dataclass(frozen=True)
class Shape:
    """How large a made-up study is."""

    layers: int = 3
    heads: int = 2
    parts: tuple[str, ...] = ("x", "y")
    contexts: int = 2
    queries: int = 4
    examples: int = 6
    twins: tuple[tuple[str, int], ...] = TWINS
    planted: tuple[int, int, str] = (1, 1, "y")


def row_test_table(
    shape: Shape, rng: np.random.Generator, *, assessable: bool = True
) -> pd.DataFrame:
    """One line a variant, layer, head (-1: sum), part and hypothesis."""
    records = []
    for variant, seed in (("trained", None), *shape.twins):
        for layer in range(shape.layers):
            for head in (*range(shape.heads), -1):
                for part in shape.parts:
                    planted = variant == "trained" and (layer, head, part) == shape.planted
                    blind = variant == "shuffled" and layer == 0
                    records += _records(
                        rng, planted=planted, blind=blind, assessable=assessable,
                        place={"variant": variant, "seed": seed, "layer": layer, "head": head,
                               "kv_group": head // 3 if head >= 0 else None, "part": part},
                    )  # fmt: skip
    return pd.DataFrame(records)


def _records(
    rng: np.random.Generator,
    *,
    planted: bool,
    blind: bool,
    assessable: bool,
    place: dict[str, Any],
) -> list[dict[str, Any]]:
    records = []
    for hypothesis in HYPOTHESES[:2]:
        share = 0.31 if planted else float(rng.normal(0.0, 0.02) + 0.06 * rng.random() ** 6)
        record = {
            **place,
            "hypothesis": hypothesis,
            "says": "follows S⁻¹ (OLS)" if planted else "none detected",
            "t": 9.0 if planted else float(rng.normal()),
            "p_corrected": 0.0005 if planted else 1.0,
            "coefficient": 1.1 if planted else float(rng.normal()),
            "positive_in_folds": 8 if planted else 4,
            "blind": blind,
            "explained": 0.5 if planted else 0.2,
        }
        if not assessable:
            record |= {"t": np.nan, "p_corrected": np.nan, "says": "not assessable"}
        effects = {
            SHARE: share,
            EXPLAINED: share * 1.5,
            "share_of_reproducible": share / 2,
            "inversion_index": 0.9,
        }
        for name, value in effects.items():
            shown = np.nan if blind else value
            record |= {name: shown, f"{name}_low": shown - 0.03, f"{name}_high": shown + 0.03}
        records.append(record)
    return records


def families_table(
    shape: Shape, rng: np.random.Generator, *, assessable: bool = True
) -> pd.DataFrame:
    """Each family on a few rows."""
    records = []
    for variant in ("trained", *(kind for kind, _ in shape.twins)):
        for family in ("inverse", "fixed metric", "kernel", "lexical"):
            for layer in range(2):
                share = float(rng.random() / 5)
                records.append(
                    {
                        "variant": variant, "layer": layer, "head": 0, "part": "y",
                        "family": family, "t": float(layer) if assessable else np.nan,
                        "p_corrected": 0.4 if assessable else np.nan,
                        EXPLAINED: share, f"{EXPLAINED}_low": share - 0.02,
                        f"{EXPLAINED}_high": share + 0.02,
                    }
                )  # fmt: skip
    return pd.DataFrame(records)


def behaviour_table() -> pd.DataFrame:
    """Errors of the model and the simple predictors; ridge has no defined difference."""
    errors = {
        "model": 0.40,
        "mean": 0.80,
        "last": 1.1,
        "nearest": 0.3,
        "kernel": 0.45,
        "ridge": 0.2,
    }
    records = []
    for name, error in errors.items():
        gap = np.nan if name in ("model", "last") else errors["model"] - error
        records.append(
            {
                "predictor": name, "error": error, "error_low": error - 0.05,
                "error_high": error + 0.07, "difference": gap, "difference_low": gap - 0.06,
                "difference_high": gap + 0.06,
            }
        )  # fmt: skip
    return pd.DataFrame(records)


def answers_table(shape: Shape, rng: np.random.Generator) -> pd.DataFrame:
    """One line a query; the second answer cannot be read."""
    count = 8 * shape.queries
    truth = rng.uniform(0, 9.99, count).round(2)
    answer = np.clip(truth + rng.normal(0, 0.9, count), 0, 9.99).round(2)
    texts = [f"{value:.2f}" for value in answer]
    answer[1], texts[1] = np.nan, "nan <b>"
    places = np.arange(count)
    frame: dict[str, Any] = {
        "context": places // shape.queries,
        "query": places % shape.queries,
        "truth": truth,
    }
    frame |= {"answer_text": texts, "answer": answer}
    for name in ("mean", "nearest", "ridge", "ols"):
        frame[name] = (truth + rng.normal(0, 0.5, count)).round(3)
    return pd.DataFrame(frame)


def agreement_table() -> pd.DataFrame:
    """Distances of the answers to four hypotheses; one is undefined."""
    distances = (0.31, 0.18, 0.22, np.nan)
    return pd.DataFrame(
        {
            "hypothesis": HYPOTHESES[:4],
            "spd": distances,
            "spd_low": [d - 0.04 for d in distances],
            "spd_high": [d + 0.05 for d in distances],
            "error": [0.2, 0.21, 0.25, np.nan],
            "error_low": [0.15, 0.16, 0.2, np.nan],
            "error_high": [0.25, 0.27, 0.3, np.nan],
        }
    )
