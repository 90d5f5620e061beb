"""Stored cells as arrays with named axes: what the analysis and the report read."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from analysis.design import Floats
from analysis.pairs import Pairs
from analysis.reproducible import Replicate
from hatlens.cells import TRAINED
from hatlens.sets import MAIN, PAIRS_A, PAIRS_B, REPLICATE, load_set
from hatlens.store import RunFolder
from probes.head_names import HeadGrid
from probes.rows import PARTS
from prompts.numerals import codec_named

LAYER_SUM = -1
"""The head number under which a layer's sum over heads stands."""

Scores = NDArray[np.float32]


class RowLabels(NamedTuple):
    """Where each tested row stands: layer, head (-1: the layer's sum) and part of the prompt."""

    layers: list[int]
    heads: int
    kv_heads: int

    def table(self) -> pd.DataFrame:
        """One line a row, in the order of the rows that are tested."""
        heads = [*range(self.heads), LAYER_SUM]
        lines = [
            (layer, head, -1 if head == LAYER_SUM else head * self.kv_heads // self.heads, part)
            for layer in self.layers
            for head in heads
            for part in PARTS
        ]
        return pd.DataFrame(lines, columns=["layer", "head", "kv_group", "part"])

    def names(self) -> list[str]:
        """``L3H5 (y)``, or ``L3 sum (y)``."""
        return [
            f"L{row.layer} sum ({row.part})"
            if row.head < 0
            else f"L{row.layer}H{row.head} ({row.part})"
            for row in self.table().itertuples()
        ]


def row_labels(folder: RunFolder) -> RowLabels:
    """The rows of a study's model."""
    facts = folder.manifest()["model"]
    return RowLabels(facts["captured_layers"], facts["heads"], facts["kv_heads"])


def head_grid(folder: RunFolder) -> HeadGrid:
    """The heads whose rows a study holds."""
    facts = folder.manifest()["model"]
    return HeadGrid(tuple(facts["captured_layers"]), facts["heads"])


def as_rows(scores: Scores) -> Scores:
    """(context, query, layer, head, part, example) to (context, query, row, example).

    Each layer's sum over heads is appended as one more head.
    """
    whole = np.concatenate([scores, scores.sum(axis=3, keepdims=True)], axis=3)
    return whole.reshape(*whole.shape[:2], -1, whole.shape[-1])


def read_cells(folder: RunFolder, variant: str, name: str, key: str) -> NDArray[Any]:
    """One array of every cell of a set, contexts first."""
    count = folder.manifest()["contexts"]["sets"][name]
    cells = (folder.read_arrays(f"rows/{variant}/{name}/{index}")[key] for index in range(count))
    return np.stack(list(cells))


def was_run(folder: RunFolder, variant: str, name: str) -> bool:
    """Whether every context of a set was run on that model."""
    count = folder.manifest()["contexts"]["sets"].get(name, 0)
    return count > 0 and all(folder.has(f"rows/{variant}/{name}/{i}") for i in range(count))


def set_scores(folder: RunFolder, variant: str, name: str = MAIN) -> Scores:
    """(context, query, row, example) of a set of contexts."""
    return as_rows(read_cells(folder, variant, name, "score").astype(np.float32))


def replicate_scores(folder: RunFolder, variant: str) -> Replicate | None:
    """The second run of the main contexts, examples at their main places; None without one."""
    if not was_run(folder, variant, REPLICATE):
        return None
    order = folder.read_arrays("contexts/order")["order"]
    place = np.argsort(order, axis=1)
    scores = as_rows(read_cells(folder, variant, REPLICATE, "score").astype(np.float32))
    aligned = np.take_along_axis(scores, place[:, None, None, :], axis=-1)
    return Replicate(aligned, np.ones(len(order), dtype=np.bool_))


def pair_scores(folder: RunFolder, variant: str) -> Pairs | None:
    """The re-paired twin contexts; None without them."""
    a, b = load_set(folder, PAIRS_A), load_set(folder, PAIRS_B)
    if a is None or b is None or not was_run(folder, variant, PAIRS_A):
        return None
    rows = [
        as_rows(read_cells(folder, variant, PAIRS_A, key).astype(np.float32))
        for key in ("score_a", "score_b")
    ]
    unanswered = np.full(a.queries.shape[:2], np.nan)
    return Pairs(rows[0], rows[1], a.arrays(unanswered), b.arrays(unanswered))


def answers(folder: RunFolder, variant: str, name: str = MAIN) -> tuple[NDArray[np.str_], Floats]:
    """The answers of one model to a set of contexts: their texts, and printed numbers or NaN."""
    texts = read_cells(folder, variant, name, "answers").astype(np.str_)
    manifest = folder.manifest()
    codecs = manifest["contexts"].get("codecs", {})
    codec = codec_named(codecs.get(name, manifest["task"]["codec"]))
    numbers = [codec.parse_answer(text) for text in texts.ravel()]
    values = np.array([np.nan if n is None else n for n in numbers], dtype=np.float64)
    return texts, values.reshape(texts.shape)


def forward_seconds(folder: RunFolder, variant: str) -> float:
    """Time of all forwards of one model's cells, answers apart."""
    names = folder.manifest()["contexts"]["sets"]
    return float(
        sum(
            read_cells(folder, variant, name, "seconds")[:, 0].sum()
            for name in names
            if was_run(folder, variant, name)
        )
    )


def rows_dataset(folder: RunFolder, variant: str = TRAINED) -> xr.Dataset:
    """Everything stored of the main contexts of one model, with named axes.

    `score` (context, query, layer, head, part, example), and where they were kept `weight`, and
    `prefix_score` and `prefix_weight` (context, place, layer, head, part, example): each
    example's own answer position attending to the examples before it, NaN elsewhere.
    """
    count = folder.manifest()["contexts"]["sets"][MAIN]
    first = folder.read_arrays(f"rows/{variant}/{MAIN}/0")
    labels = row_labels(folder)
    axes = ("layer", "head", "part", "example")
    found = {}
    for key in ("score", "weight", "prefix_score", "prefix_weight"):
        if key in first:
            second = "place" if key.startswith("prefix") else "query"
            values = read_cells(folder, variant, MAIN, key)
            found[key] = (("context", second, *axes), values)
    queries, examples = first["score"].shape[0], first["score"].shape[-1]
    coords: dict[str, Any] = {
        "context": range(count),
        "query": range(queries),
        "layer": labels.layers,
        "head": range(labels.heads),
        "part": list(PARTS),
        "example": range(examples),
    }
    if "prefix_score" in found:
        coords["place"] = range(examples)
    return xr.Dataset(found, coords=coords)
