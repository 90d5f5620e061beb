"""Plain and layer-causal descent at several doses, so that they can be compared where both move
outputs by as much (2311.07772)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.claims.finding import Finding, not_assessable
from analysis.claims.layer_causal import METHODS, gain_at_equal_norm, judged, layer_causal_finding
from analysis.similarity.measures import MEASURES
from analysis.similarity.records import Floats, Runs
from analysis.similarity.resampling import Resamples, draw_resamples
from analysis.similarity.vectors import mean_defined
from hatlens.comparison.cell import chunk_of
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.cutting import lessons_of
from hatlens.comparison.feed import SetFeed
from hatlens.comparison.fitting import Fit, fit_at_norm, learn, update_norms
from hatlens.progress import Report
from hatlens.store import RunFolder
from probes.models import LoadedModel
from probes.three_runs import run_conditions
from probes.three_runs_queries import Condition
from prompts.tasks.tokens import TaskPrompts

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Doses: update norms, mean over layers, over the one that the set's own fine-tuning reached."""
DOSE_QUERIES = 50
OTHER = "icl-other"
"""The run whose demonstrations are D'."""
LIKENESS = ("SimAOU (orthogonal)", "SimAM-delta (centred)")
NORM = "update norm (FT)"
CLOSE = 0.25
"""How far a dose may miss its norm, which is recorded: likeness is interpolated between doses."""
START: Mapping[str, float] = {"gd": 1.0, "lcgd": 0.1}
"""The first rate that is tried over the set's own: layer-causal gradients are far larger."""
Arrays = Mapping[str, NDArray[Any]]
Result = dict[str, Any]


class Kept(NamedTuple):
    """What the measures of updates read of a run."""

    h: Floats
    scores: Floats


class Curves(NamedTuple):
    """Likeness to ICL by measure, and output change: (method, dose, set, query, layer).

    other: likeness to ICL on other demonstrations, empty where a set has none.
    """

    likeness: Mapping[str, Floats]
    norm: Floats
    other: Mapping[str, Floats]


def dose_cells(config: SimilarityConfig) -> list[str]:
    """One a set, of the trained model; none where it was not asked for."""
    return [f"dose/trained/{place}" for place in range(config.sets)] if config.dose else []


def run_dose(
    config: SimilarityConfig, loaded: LoadedModel, fed: SetFeed, own: Arrays, report: Report
) -> Arrays:
    """``METHOD/MEASURE`` (dose, query, layer) of both ways of descent, NaN where a dose diverged;
    ``METHOD/other/MEASURE``, the same to ICL on D'; ``METHOD/rate``, ``METHOD/norm`` (dose,),
    ``METHOD/failed``.

    `own`: the set's own cell, whose update norm and rate the doses begin at. Layer-causal descent
    takes its steps at a shared rate, as published; its doses are reached by scaling the rate.
    """
    target = float(own["fit/ft/norm"])
    said = str(own["failed"]) or ("" if target > 0 else "fine-tuning moved no output")
    if said:
        return {"failed": np.array(said)}
    asked = fed.prompts.first(DOSE_QUERIES)
    none = np.zeros(0, dtype=np.int64)
    shown = np.concatenate([none, *asked.demonstrations])
    run = partial(kept_runs, config, loaded, fed, asked)
    zsl, icl = run(Condition(none)), {"": run(Condition(shown))}
    if OTHER in fed.before:
        icl["other/"] = run(Condition(fed.before[OTHER]))
    found: dict[str, NDArray[Any]] = {"failed": np.array("")}
    for number, method in enumerate(METHODS):
        fits: list[Fit] = []
        values: dict[str, list[Floats]] = {}
        for fit in doses(config, loaded, fed, method, float(own["fit/ft/rate"]), target):
            report("doses", number * len(FACTORS) + len(fits), len(METHODS) * len(FACTORS))
            fits.append(fit._replace(tuned=None))
            ft = None if fit.tuned is None else run(Condition(none, fit.tuned))
            for key, of_dose in measured_against(icl, zsl, ft).items():
                values.setdefault(key, []).append(of_dose)
        found |= {f"{method}/{key}": np.stack(of_dose) for key, of_dose in values.items()}
        found[f"{method}/rate"] = np.array([fit.rate for fit in fits])
        found[f"{method}/norm"] = np.array([fit.norm for fit in fits])
        found[f"{method}/failed"] = np.array([fit.failed for fit in fits])
    return found


def measured_against(
    icl: Mapping[str, Mapping[int, Kept]],
    zsl: Mapping[int, Kept],
    ft: Mapping[int, Kept] | None,
) -> dict[str, Floats]:
    """Likeness to each ICL run, and output change, of one dose; keys as `run_dose` stores them."""
    found = {
        f"{name}{key}": by_query(key, one, zsl, ft) for name, one in icl.items() for key in LIKENESS
    }
    return {**found, NORM: by_query(NORM, icl[""], zsl, ft)}


def doses(
    config: SimilarityConfig,
    loaded: LoadedModel,
    fed: SetFeed,
    method: str,
    rate: float,
    target: float,
) -> Iterator[Fit]:
    """One fine-tuning a dose, one at a time, from the smallest; each begins at the last one's rate
    in proportion."""
    way = config.model_copy(update={"ft": method, "layer": None, "step_norm": "shared"})
    make = partial(learn, way, loaded, lessons_of(fed.prompts))
    norms = partial(update_norms, loaded, fed.norms)
    steepness = rate * START[method] / target
    for factor in FACTORS:
        wanted = target * factor
        fit = fit_at_norm(make, norms, rate=wanted * steepness, target=wanted, close=CLOSE)
        if fit.tuned is not None and fit.norm > 0:
            steepness = fit.rate / fit.norm
        yield fit


def kept_runs(
    config: SimilarityConfig,
    loaded: LoadedModel,
    fed: SetFeed,
    asked: TaskPrompts,
    condition: Condition,
) -> dict[int, Kept]:
    """Every query in one run."""
    runs = run_conditions(
        loaded,
        asked,
        {"run": condition},
        position=config.positions[0],
        chunk=chunk_of(loaded, fed),
    )
    return {one.query: Kept(one.runs["run"].h, one.runs["run"].scores) for one in runs}


def by_query(
    key: str, icl: Mapping[int, Any], zsl: Mapping[int, Any], ft: Mapping[int, Any] | None
) -> Floats:
    """A measure (query, layer); NaN throughout without a fine-tuned run."""
    measure = MEASURES[key].of
    moved = icl if ft is None else ft
    values = np.stack([measure(Runs(icl[q], zsl[q], moved[q])) for q in range(len(icl))])
    return np.full_like(values, np.nan) if ft is None else values


def dose_curves(config: SimilarityConfig, folder: RunFolder) -> Curves | None:
    """The stored curves of the sets whose fine-tuning did not diverge; None where none is."""
    cells = [cell for cell in stored_doses(config, folder) if not str(cell["failed"])]
    if not cells:
        return None

    def whole(key: str) -> Floats:
        return np.stack(
            [np.stack([cell[f"{m}/{key}"] for cell in cells], axis=1) for m in METHODS]
        ).astype(np.float64)

    every = all(f"{METHODS[0]}/other/{LIKENESS[0]}" in cell for cell in cells)
    other = {key: whole(f"other/{key}") for key in LIKENESS if every}
    return Curves({key: whole(key) for key in LIKENESS}, whole(NORM), other)


def stored_doses(config: SimilarityConfig, folder: RunFolder) -> list[Arrays]:
    return [folder.read_arrays(name) for name in dose_cells(config)]


def dose_claim(config: SimilarityConfig, folder: RunFolder) -> Finding:
    """Whether layer-causal descent is nearer to ICL than plain descent that moves as much."""
    if not config.dose:
        return not_assessable("both ways of descent were not run at several doses (--dose)")
    curves = dose_curves(config, folder)
    if curves is None:
        return not_assessable("fine-tuning diverged, or moved nothing, on every set")
    return layer_causal_finding(
        curves.likeness, curves.norm, rng=drawn(config, curves), other=curves.other
    )


def drawn(config: SimilarityConfig, curves: Curves) -> Resamples:
    """Resamples of sets and queries, the same for every measure."""
    return draw_resamples(*curves.norm.shape[2:4], rng=np.random.default_rng([config.seed, 10]))


def dose_result(config: SimilarityConfig, folder: RunFolder) -> Result | None:
    """Gain of layer-causal over plain descent at equal output change; None where not asked for."""
    if not config.dose:
        return None
    cells = stored_doses(config, folder)
    curves = dose_curves(config, folder)
    failures = [
        {"set": place, "sentence": str(cell["failed"])}
        for place, cell in enumerate(cells)
        if str(cell["failed"])
    ]
    measures = [] if curves is None else [gain_entry(config, key, curves) for key in LIKENESS]
    return {"factors": FACTORS, "measures": measures, "failures": failures}


def gain_entry(config: SimilarityConfig, key: str, curves: Curves) -> Result:
    """One measure's gain, and what it is to ICL on other demonstrations (`gain_other`, None without
    any). `shared`: of the (set, query, layer) that are defined, the share that
    could be compared, from a relative output change `low` to `high`, means over these."""
    one = gain_at_equal_norm(curves.likeness[key], curves.norm)
    known = judged(one.gain, rng=drawn(config, curves))
    layers = np.moveaxis(one.gain, -1, 0).reshape(one.gain.shape[-1], -1)
    there = curves.other.get(key)
    other = None if there is None else gain_at_equal_norm(there, curves.norm).gain
    return {
        "measure": key,
        "gain": known.effect,
        "gain_other": None if other is None else judged(other, rng=drawn(config, curves)).effect,
        "p": known.p,
        "by_layer": mean_defined(layers),
        "sets": one.gain.shape[0],
        "queries": one.gain.shape[1],
        "shared": one.shared,
        "layers_shared": one.layers,
        "low": float(mean_defined(one.low.ravel())),
        "high": float(mean_defined(one.high.ravel())),
    }


def dose_table(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """One line a measure, way of descent, dose, set and layer, means over queries; by table name,
    empty where not asked for."""
    rows = [
        {
            "measure": key,
            "method": method,
            "dose": factor,
            "set": place,
            "layer": layer,
            "relative_norm": norm,
            "likeness": likeness,
        }
        for place, cell in enumerate(stored_doses(config, folder))
        if not str(cell["failed"])
        for key in LIKENESS
        for method in METHODS
        for dose, factor in enumerate(FACTORS)
        for layer, (norm, likeness) in enumerate(
            zip(
                mean_defined(cell[f"{method}/{NORM}"][dose].T),
                mean_defined(cell[f"{method}/{key}"][dose].T),
                strict=True,
            )
        )
    ]
    return {"dose": pd.DataFrame(rows)} if rows else {}
