"""Which runs each comparison takes: the matched one, and everything that must stand beside it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from analysis.similarity.measures import MEASURES, NEXT, SCORES
from analysis.similarity.records import Floats, Record, Runs

MATCHED = "matched"


class Condition(NamedTuple):
    """One comparison: the runs that take the places of ICL, ZSL and FT, by name.

    role: "headline"; "mismatch", which a claim must exceed; "ceiling"; or "control", described.
    lacks: what its records do not really hold, so that measures which read it are left out.
    """

    icl: str
    zsl: str
    ft: str
    role: str
    statement: str
    lacks: tuple[str, ...] = ()


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        MATCHED: Condition("icl", "zsl", "ft", "headline", "ICL on D against FT on D"),
        "other demonstrations": Condition(
            "icl", "zsl", "ft-other", "mismatch", "ICL on D against FT on D' of the same task"
        ),
        "other task": Condition(
            "icl", "zsl", "ft-task", "mismatch", "ICL on D against FT on another task"
        ),
        "other query": Condition(
            "icl", "zsl", "ft-next", "mismatch", "ICL of a query against FT of another", (SCORES,)
        ),
        "irrelevant context": Condition(
            "icl", "irrelevant", "ft", "mismatch", "as many tokens of no task in place of ZSL"
        ),
        "position-matched": Condition(
            "icl", "zsl-matched", "ft", "control", "ZSL at the query's position in ICL"
        ),
        "wrong labels": Condition(
            "icl-wrong", "zsl", "ft", "control", "ICL on D with wrong labels against FT on D"
        ),
        "another order": Condition(
            "icl", "zsl", "icl-order", "ceiling", "ICL on D against ICL on D in another order"
        ),
        "random, uniform": Condition(
            "icl",
            "zsl",
            "random-uniform",
            "control",
            "an update of Uniform[0, 1) (2212.10559)",
            (NEXT,),
        ),
        "random, Gaussian": Condition(
            "icl",
            "zsl",
            "random-gaussian",
            "control",
            "a Gaussian update of FT's norm",
            (NEXT,),
        ),
    }
)
"""Every comparison; one that lacks a run is left out. Under `other query` the update of another
query stands on this one's ZSL (`moved_as_here`), so that only the demonstrations are in common."""


class Moved(NamedTuple):
    """A record made from others: only what the measures of updates read is meaningful."""

    h: Floats
    scores: Floats
    earlier: Floats | None
    query: Floats
    inputs: Floats
    next_logp: Floats
    label_logp: Floats


def random_update(zsl: Record, ft: Record, kind: str, *, rng: np.random.Generator) -> Moved:
    """ZSL moved at random: "uniform" by Uniform[0, 1) as published, "gaussian" by FT's norm.

    The uniform one tests the mean of an update, not its direction; both move outputs and scores.
    """
    makers = {"uniform": _uniform, "gaussian": _gaussian}
    make = makers[kind]
    return Moved(
        h=zsl.h + make(zsl.h, ft.h, rng),
        scores=zsl.scores + make(zsl.scores, ft.scores, rng),
        earlier=None,
        query=zsl.query,
        inputs=zsl.inputs,
        next_logp=zsl.next_logp,
        label_logp=zsl.label_logp,
    )


def _uniform(base: Floats, moved: Floats, rng: np.random.Generator) -> Floats:
    return rng.random(base.shape)


def _gaussian(base: Floats, moved: Floats, rng: np.random.Generator) -> Floats:
    drawn = rng.standard_normal(base.shape)
    size = np.linalg.norm(moved.astype(np.float64) - base, axis=-1, keepdims=True)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True) * size)


def moved_as_here(zsl: Record, other_zsl: Record, other_ft: Record) -> Moved:
    """This query's ZSL with another query's fine-tuning update put on it.

    Outputs move by h_FT - h_ZSL of the other query. Scores have another length there, so they are
    this query's own ZSL scores: measures of attention are undefined under this comparison.
    """
    return Moved(
        h=zsl.h + (np.asarray(other_ft.h, np.float64) - other_zsl.h),
        scores=zsl.scores,
        earlier=None,
        query=other_ft.query,
        inputs=other_ft.inputs,
        next_logp=other_ft.next_logp,
        label_logp=other_ft.label_logp,
    )


def measured(runs: Mapping[str, Record]) -> dict[tuple[str, str], Floats]:
    """Every measure under every comparison whose runs are there, by (comparison, measure's key)."""
    found: dict[tuple[str, str], Any] = {}
    for name, condition in CONDITIONS.items():
        places = (condition.icl, condition.zsl, condition.ft)
        if all(place in runs for place in places):
            chosen = Runs(*(runs[place] for place in places))
            for key, measure in MEASURES.items():
                if measure.reads not in condition.lacks:
                    found[name, key] = measure.of(chosen)
    return found
