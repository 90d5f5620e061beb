"""Synthetic studies for the report: made-up figures in the shape that a real run has."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from analysis.report import StudyView
from tests.analysis.study_tables import (
    EXPLAINED,
    HYPOTHESES,
    PARTS,
    SHARE,
    TWINS,
    Shape,
    agreement_table,
    answers_table,
    behaviour_table,
    families_table,
    row_test_table,
)

SMALL = Shape()
FULL = Shape(30, 9, PARTS, 2, 8, 20, TWINS, (14, 5, "y"))


def study(
    shape: Shape = SMALL, *, title: str = "Rows at P = 2", assessable: bool = True, seed: int = 0
) -> StudyView:
    """A study in which one head of the trained model follows the OLS row, and no twin does."""
    rng = np.random.default_rng(seed)
    bank = _bank(shape, rng)
    return StudyView(
        title,
        result(shape, assessable=assessable),
        {
            "row_test": row_test_table(shape, rng, assessable=assessable),
            "families": families_table(shape, rng, assessable=assessable),
            "behaviour": behaviour_table(),
            "answers": answers_table(shape, rng),
            "agreement": agreement_table(),
        },
        rows(shape, bank, rng),
        bank,
        [prompt(shape, rng) for _ in range(shape.contexts)],
    )


def both() -> list[StudyView]:
    """A behaviour part without an attention verdict, and a part with one: the default report."""
    first = study(SMALL, title="Behaviour at P = 1", assessable=False, seed=1)
    return [changed(first, preview="16 contexts"), study(SMALL)]


def changed(view: StudyView, **result: Any) -> StudyView:
    """The study with other values at some keys of its result."""
    return view._replace(result={**view.result, **result})


def interval(estimate: float | None, reach: float = 0.04) -> dict[str, float | None]:
    """An interval as the result holds it."""
    if estimate is None:
        return {"estimate": None, "low": None, "high": None}
    return {"estimate": estimate, "low": estimate - reach, "high": estimate + reach}


def entry(hypothesis: str, layer: int, head: int, **values: Any) -> dict[str, Any]:
    """One entry of a ``row_test`` list."""
    share = values.pop("share", 0.01)
    return {
        "hypothesis": hypothesis,
        "layer": layer,
        "head": head,
        "kv_group": 0 if head >= 0 else None,
        "part": values.pop("part", "y"),
        "says": values.pop("says", "none detected"),
        SHARE: interval(share),
        EXPLAINED: interval(None if share is None else share * 1.5),
        "share_of_reproducible": interval(None if share is None else share / 2),
        "inversion_index": interval(values.pop("index", 0.5), 0.2),
        "positive_in_folds": values.pop("folds", 5),
        "p_corrected": values.pop("p", 1.0),
    }


def result(shape: Shape, *, assessable: bool) -> dict[str, Any]:
    """The object that the command prints for this study."""
    layer, head, part = shape.planted
    best = entry(
        "ols",
        layer,
        head,
        part=part,
        share=0.31,
        index=0.93,
        folds=8 if assessable else None,
        p=0.0005 if assessable else None,
        says="follows S⁻¹ (OLS)" if assessable else "not assessable",
    )
    others = [entry(name, layer, 0, share=0.02 * i) for i, name in enumerate(HYPOTHESES) if i]
    label = "follows S⁻¹ (OLS)" if assessable else "not assessable (gate failed)"
    sentence = (
        f"Attention follows S⁻¹: layer {layer}, head {head} carries the least-squares row "
        "(unique share 0.31, p 0.0005)."
        if assessable
        else "No verdict on attention: the answers do not beat the mean of the examples, so the "
        "rows below are description."
    )
    return {
        "model": {"name": "tiny", "file_hash": "sha256:0123", "layers": shape.layers},
        "task": {"features": 2, "examples": shape.examples, "data": None, "twins": ["shuffled"]},
        "parity": {"passed": True, "max_logit_difference": 1.9e-6, "max_weight_difference": 3e-7},
        "behaviour": {
            "verdict": "nearest to ridge" if assessable else "does not beat the mean",
            "sentence": "The answers beat the mean and lie nearest to ridge."
            if assessable
            else "The answers do not beat the mean (MAE 0.651 against 0.637).",
            "parse_rate": 0.984375,
            "error": {"model": 0.4, "mean": 0.8},
        },
        "row_test": [best, *others],
        "rows": {"tested": 1000, "blind": 20},
        "design": {"attainable": interval(0.47), "identifies": True, "mde": 0.18},
        "twins": [
            {"kind": kind, "seed": number, "row_test": [entry("ols", 0, 1, share=0.01 + 0.01 * i)]}
            for i, (kind, number) in enumerate(shape.twins)
        ],
        "correction": {"flips": 2000, "folds": 8, "unit": "context", "tests": 5000},
        "verdict": {"label": label, "sentence": sentence},
        "cost": {"study_seconds": 552.0, "capture_overhead": 1.03, "peak_bytes": 2.4e9},
        "manifest": {
            "versions": {"hatlens": "0.1.0", "torch": "2.13.0"},
            "seeds": {"study": 1, "twins": [1, 2]},
        },
        "run": "runs/tiny",
    }


def _bank(shape: Shape, rng: np.random.Generator) -> xr.DataArray:
    """Made-up rows of the bank that sum to 1; the second is a noisy copy of the first."""
    sizes = (len(HYPOTHESES), shape.contexts, shape.queries, shape.examples)
    values = rng.normal(size=sizes) / shape.examples
    values[1] = values[0] + 0.1 * values[1]
    values += (1 - values.sum(axis=-1, keepdims=True)) / shape.examples
    return xr.DataArray(
        values,
        dims=("hypothesis", "context", "query", "example"),
        coords={"hypothesis": list(HYPOTHESES)},
    )


def rows(shape: Shape, bank: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
    """Scores in which the place carries nearly everything, and one row holds the OLS row."""
    names = ["trained", *(kind for kind, _ in shape.twins)]
    outer = (len(names), shape.contexts, shape.queries)
    sizes = (*outer, shape.layers, shape.heads, len(shape.parts), shape.examples)
    place = rng.normal(0, 3, (1, 1, 1, *sizes[3:]))
    values: NDArray[np.float64] = place + rng.normal(0, 0.05, sizes)
    layer, head, part = shape.planted
    planted = values[0, :, :, layer, head, shape.parts.index(part)]
    planted += 2 * bank.sel(hypothesis="ols").to_numpy()
    return xr.DataArray(
        values.astype(np.float32),
        dims=("variant", "context", "query", "layer", "head", "part", "example"),
        coords={
            "variant": names,
            "layer": np.arange(shape.layers),
            "head": np.arange(shape.heads),
            "part": list(shape.parts),
            "example": np.arange(1, shape.examples + 1),
        },
    )


def prompt(shape: Shape, rng: np.random.Generator) -> str:
    """A prompt in the line layout."""
    lines = [
        f"x: {a:.2f}, {b:.2f}; y: {c:.2f}\n"
        for a, b, c in rng.uniform(0, 9.99, (shape.examples, 3))
    ]
    return "".join(lines) + "x: 4.56, 7.89; y: "
