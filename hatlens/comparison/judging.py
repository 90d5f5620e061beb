"""What claims on the likeness of ICL and FT are judged from: a comparison's cells as findings."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.claims import attention_maps, attention_outputs
from analysis.claims.attention_maps import attention_maps_finding
from analysis.claims.attention_outputs import attention_outputs_finding
from analysis.claims.beside_twins import BesideTwins
from analysis.claims.finding import Finding, not_assessable
from analysis.claims.order import LEAST_QUERIES
from analysis.claims.output_change import Variation, output_change_finding
from analysis.claims.recovered_answers import Answers, recovered_answers_finding
from analysis.similarity.conditions import MATCHED
from analysis.similarity.resampling import Resamples
from hatlens.comparison.beyond import beyond_twin, held_pair
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.norms import is_far, norm_ratio
from hatlens.comparison.stored import Stored, is_trained
from hatlens.store import RunFolder

DEMONSTRATIONS, QUERY, ORDER = "other demonstrations", "other query", "another order"
LEAST_SETS = 5
"""Sets of demonstrations are resampled: of fewer the interval says too little of others."""


class Judging(NamedTuple):
    """What a claim may be judged from. `stored`: the model first, then its twins; `resamples`: of
    the model's sets and queries."""

    config: SimilarityConfig
    folder: RunFolder
    stored: Sequence[Stored]
    resamples: Resamples

    @property
    def model(self) -> Stored:
        """The trained model's cells."""
        return self.stored[0]

    @property
    def position(self) -> str:
        """Where likeness is read: the answer, where it was recorded."""
        return self.config.positions[0]


def attention_outputs_claim(judging: Judging) -> Finding:
    """C5, of FT on D' as the mismatch."""
    if reason := why_not(judging, other="ft-other"):
        return not_assessable(reason)
    return attention_outputs_finding(
        beside_twins(judging, attention_outputs.MEASURE, DEMONSTRATIONS)
    )


def attention_maps_claim(judging: Judging) -> Finding:
    """C6; the mismatch of Kendall's tau is another query."""
    if reason := why_not(judging, other="ft-other"):
        return not_assessable(reason)
    scores, *kendalls = attention_maps.MEASURES
    mismatches = {scores: DEMONSTRATIONS, **dict.fromkeys(kendalls, QUERY)}
    return attention_maps_finding(
        {
            key: beside_twins(judging, key, mismatch)
            for key, mismatch in mismatches.items()
            if has(judging.model, judging.position, key, MATCHED, mismatch)
        }
    )


def recovered_answers_claim(judging: Judging) -> Finding:
    """C7, of ICL on D' as the control."""
    if reason := why_not(judging, other="icl-other"):
        return not_assessable(reason)
    model, score = judging.model, judging.config.label_score
    logp = model.label_logp("zsl")[..., ("sum", "mean").index(score)].astype(np.float64)
    if logp.shape[-1] < 2:
        return not_assessable("the answers of this task are not labels, to be right or wrong")
    gold = model.gold[..., None]
    best_other = logp.copy()
    np.put_along_axis(best_other, gold, -np.inf, axis=-1)
    right = {run: model.right(run, score) for run in ("zsl", "ft", "icl", "icl-other")}
    margin = np.take_along_axis(logp, gold, axis=-1)[..., 0] - best_other.max(axis=-1)
    return recovered_answers_finding(
        Answers(model.gold, margin, *right.values()), rng=judging.resamples
    )


def output_change_claim(judging: Judging) -> Finding:
    """C10, at the answer alone: elsewhere the next token is not the answer's."""
    if reason := why_not(judging, other="ft-other"):
        return not_assessable(reason)
    if judging.position != "answer":
        return not_assessable("next tokens were not recorded at the answer (--position answer)")
    if not has(judging.model, "answer", "total variation", MATCHED, DEMONSTRATIONS, ORDER):
        return not_assessable("one demonstration has no other order, which is the ceiling")
    values = [
        judging.model.values(("answer", condition, key))[..., 0]
        for condition, key in (
            (MATCHED, "total variation"),
            (DEMONSTRATIONS, "total variation"),
            (ORDER, "total variation"),
            (MATCHED, "total variation (ICL, ZSL)"),
        )
    ]
    return output_change_finding(Variation(*values), rng=judging.resamples)


def why_not(judging: Judging, *, other: str) -> str:
    """Why nothing can be judged on the sets and queries that were run; empty where it can.

    `other`: the run on D' that the control takes.
    """
    model = judging.model
    if not model.sets:
        return "fine-tuning diverged on every set of demonstrations"
    if other not in model.runs():
        return "no other demonstrations of the task were left to compare with"
    if len(model.sets) < LEAST_SETS:
        return f"needed {LEAST_SETS} sets of demonstrations, came {len(model.sets)} (--sets 5)"
    queries = model.gold.shape[1]
    if queries < LEAST_QUERIES:
        return f"needed {LEAST_QUERIES} queries for a p that survives correction, came {queries}"
    ratios = {place: norm_ratio(model, model, place, other) for place in model.sets if other in FTS}
    if far := [place for place, ratio in ratios.items() if is_far(ratio)]:
        return (
            f"on set {far[0] + 1} FT on other demonstrations moved outputs {ratios[far[0]]:.2g} "
            "times as far as FT, and likeness rises with the size of an update"
        )
    return ""


FTS = ("ft-other",)
"""Runs on D' that are fine-tunings, whose update norm has to be that of FT on D."""


def beside_twins(judging: Judging, key: str, mismatch: str) -> BesideTwins:
    """A measure of the model matched and mismatched, and by how much its difference exceeds each
    twin's (see `beyond_twin`)."""
    conditions = (MATCHED, mismatch)
    matched, mismatched = (judging.model.values((judging.position, c, key)) for c in conditions)
    names = (judging.position, mismatch, key)
    twins = [one for one in judging.stored if not is_trained(one)]
    return BesideTwins(
        held_pair(matched, mismatched, judging.resamples),
        {
            f"the {one.variant.kind} twin, seed {one.variant.seed}": beyond_twin(
                judging.model, one, names, judging.resamples
            )
            for one in twins
        },
    )


def has(model: Stored, position: str, key: str, *conditions: str) -> bool:
    """Whether a measure was stored under all of these conditions."""
    return all((position, condition, key) in model.keys for condition in conditions)
