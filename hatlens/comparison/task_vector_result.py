"""What the stored runs with a vector in place of the demonstrations say."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.claims.finding import Finding, not_assessable
from analysis.claims.task_vector import LEAST_GAIN, MARGIN, share_of, vector_finding
from analysis.design import Floats
from analysis.inference import ALPHA, Interval, mean_interval, proportion_interval
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.task_vector import CONTROLS, right_logp, vector_cells
from hatlens.store import RunFolder
from probes.task_vector import WAYS
from prompts.pieces import Integers

SHARE, NATS = "right answers", "nats"
_SIDES = {"add": "added to", "replace": "put in place of"}


class Cell(NamedTuple):
    """A stored cell, and how its answers are judged: `several` labels, their score sum or mean."""

    arrays: Any
    several: bool
    mean: bool

    def likely(self, name: str) -> Floats:
        """log p of the right answer (..., query) of an array of the cell."""
        return right_logp(np.asarray(self.arrays[name]), self.gold(name))

    def answers(self, name: str) -> Integers:
        """The likeliest class (..., query)."""
        logp = self.arrays[name]
        lengths = self.arrays[f"lengths/{name[0]}"] if self.mean else 1
        return np.asarray((logp / lengths).argmax(axis=-1))

    def values(self, name: str) -> Floats:
        """1 for a right answer and 0 for a wrong one; log p where answers are no labels."""
        if not self.several:
            return self.likely(name)
        return np.asarray(self.answers(name) == self.gold(name), dtype=np.float64)

    def gold(self, name: str) -> Integers:
        """The right classes of the split that an array is of."""
        return np.asarray(self.arrays[f"gold/{name[0]}"])

    @property
    def controls(self) -> list[str]:
        """Those that were run."""
        return [name for name in CONTROLS if f"b/{name}" in self.arrays]

    @property
    def missing(self) -> list[str]:
        """Those that could not be run: a claim asks for every one."""
        return [name for name in CONTROLS if f"b/{name}" not in self.arrays]

    @property
    def unit(self) -> str:
        """What one run has more of than another."""
        return SHARE if self.several else NATS


def read_cell(config: SimilarityConfig, folder: RunFolder) -> Cell:
    """The stored cell of a comparison that asked for it."""
    arrays = folder.read_arrays(vector_cells(config)[0])
    several = "a/zsl" in arrays and arrays["a/zsl"].shape[-1] > 1
    return Cell(arrays, several, config.label_score == "mean")


def vector_judged(config: SimilarityConfig, folder: RunFolder) -> Finding:
    """The finding on split B, uncorrected; not assessable where it was not asked for."""
    if not config.vector_queries:
        return not_assessable("it was not asked for (--vector-queries 100)")
    cell = read_cell(config, folder)
    if failed := str(cell.arrays["failed"]):
        return not_assessable(failed)
    if "b/zsl" not in cell.arrays:
        return not_assessable("1 query is too few to choose a layer on one and report on another")
    found = vector_finding(
        cell.values("b/zsl"),
        cell.values("b/icl"),
        cell.values("b/vector")[0],
        {name: cell.values(f"b/{name}").mean(axis=0) for name in cell.controls},
        unit=cell.unit,
        rng=np.random.default_rng([config.seed, 13]),
    )
    if not cell.missing:
        return found
    said = f"{found.figures}; {' and '.join(cell.missing)} could not be run as a control"
    return found._replace(figures=said, beats=False)


def vector_result(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any] | None:
    """Where the vector was put, what each run answers on split B, and a sentence; None where it
    was not asked for."""
    if not config.vector_queries:
        return None
    cell, found = read_cell(config, folder), vector_judged(config, folder)
    said = {
        "effect": found.effect,
        "p": found.p,
        "margin": MARGIN,
        "assessable": not found.reason,
    }
    if str(cell.arrays["failed"]) or "b/zsl" not in cell.arrays:
        return {**said, "sentence": f"Not assessable: {found.reason}."}
    zsl, icl, vector = (cell.values(f"b/{run}") for run in ("zsl", "icl", "vector"))
    return {
        "way": str(cell.arrays["way"]),
        "layer": int(cell.arrays["layer"]),
        "queries": {"a": len(cell.gold("a")), "b": len(cell.gold("b"))},
        "unit": cell.unit,
        "by_layer": {
            way: cell.likely("a/patched")[place].mean(axis=-1).tolist()
            for place, way in enumerate(WAYS)
        },
        "on_a": {run: float(cell.likely(f"a/{run}").mean()) for run in ("zsl", "icl")},
        "runs": {
            "zsl": run_interval(zsl),
            "icl": run_interval(icl),
            "vector": run_interval(vector[0]),
            **{name: run_interval(cell.values(f"b/{name}").mean(axis=0)) for name in cell.controls},
        },
        "recovered": share_of(vector[0] - zsl, icl - zsl),
        **said,
        "sentence": sentence_of(found, cell),
    }


def run_interval(values: Floats) -> Interval:
    """A run's mean over queries: exact of right answers, else by resampling theory."""
    if np.isin(values, (0, 1)).all():
        return proportion_interval(int(values.sum()), len(values))
    return mean_interval(values)


def sentence_of(found: Finding, cell: Cell) -> str:
    """What was found, before correction over claims."""
    if found.reason:
        return f"Not assessable: {found.reason} ({found.figures})."
    beyond = found.p <= ALPHA and found.effect.low > 0
    way, layer = str(cell.arrays["way"]), int(cell.arrays["layer"])
    every = "every control that was run" if cell.missing else "every control"
    said = (
        f"beyond {every}, p {found.p:.2g} before correction over claims"
        if beyond
        else f"not seen to be more than a control's, p {found.p:.2g}"
    )
    place = f"of one vector {_SIDES[way]} the state after layer {layer} (from 0)"
    return f"{found.figures[:1].upper()}{found.figures[1:]}: {said}; {place}."


def vector_table(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """Lines of split A by way and layer, and of split B by run and query; none where not asked."""
    if not config.vector_queries:
        return {}
    cell = read_cell(config, folder)
    if str(cell.arrays["failed"]):
        return {}
    found = {"task_vector_layers": by_layer(cell)}
    if "b/zsl" in cell.arrays:
        found["task_vector"] = by_query(cell)
    return found


def by_layer(cell: Cell) -> pd.DataFrame:
    """Split A: mean log p of the right answer, the share of ICL's gain in it, right answers."""
    likely, values = cell.likely("a/patched").mean(axis=-1), cell.values("a/patched").mean(axis=-1)
    zsl, icl = (float(cell.likely(f"a/{run}").mean()) for run in ("zsl", "icl"))
    gain = icl - zsl if icl - zsl > LEAST_GAIN else np.nan
    chosen = str(cell.arrays["way"]), int(cell.arrays["layer"])
    rows = [
        {
            "way": way,
            "layer": layer,
            "log_probability": float(likely[place, layer]),
            "recovered": (float(likely[place, layer]) - zsl) / gain,
            "accuracy": float(values[place, layer]) if cell.several else np.nan,
            "chosen": (way, layer) == chosen,
        }
        for place, way in enumerate(WAYS)
        for layer in range(likely.shape[1])
    ]
    return pd.DataFrame(rows)


def by_query(cell: Cell) -> pd.DataFrame:
    """Split B: one line a run, draw and query."""
    rows = []
    for run in ("zsl", "icl", "vector", *cell.controls):
        likely = np.atleast_2d(cell.likely(f"b/{run}"))
        answers = np.atleast_2d(cell.answers(f"b/{run}"))
        gold = cell.gold("b")
        for draw, query in np.ndindex(likely.shape):
            rows.append(
                {
                    "run": run,
                    "draw": draw,
                    "query": len(cell.gold("a")) + query,
                    "gold": int(gold[query]),
                    "answer": int(answers[draw, query]),
                    "log_probability": float(likely[draw, query]),
                }
            )
    return pd.DataFrame(rows)
