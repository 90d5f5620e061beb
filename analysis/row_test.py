"""The row test: does a row of attention scores hold a component that only S^-1 explains?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import baseline
from analysis.assessable import LEVEL, not_assessable, preview
from analysis.bank import Hypothesis
from analysis.bootstrap import undefined
from analysis.design import ContextArrays
from analysis.families import FamilyTest, family_tests
from analysis.flips import critical_value
from analysis.folds import Indices, folded
from analysis.judgement import Judged, choose, index_of_rows, judge, reproducible_shares, texts
from analysis.pairs import Pairs, PairsTest, pairs_test
from analysis.reproducible import Replicate, reproducible_share
from analysis.row_result import NOT_ASSESSABLE, RowTest
from analysis.row_study import Settings, Study, checked_scores, prepare
from analysis.spike import LEAST_ATTAINABLE, DesignGate, attainable, found_by_share, least_share
from analysis.threads import one_blas_thread

__all__ = ["Pairs", "Replicate", "RowTest", "row_test"]


def row_test(
    scores: NDArray[np.floating],
    contexts: ContextArrays,
    hypotheses: Sequence[str | Hypothesis] = ("ols",),
    *,
    rng: np.random.Generator,
    flips: int = 2000,
    folds: int = 8,
    resamples: int = 1000,
    replicate: Replicate | None = None,
    pairs: Pairs | None = None,
    blocks: Sequence[int] | Indices | None = None,
) -> RowTest:
    """Test every row against every hypothesis, corrected over all of them.

    scores: (C, M, R, N), float; pre-softmax scores of C contexts, M queries, R rows and N
    examples; the caller says which layer, head and part of the prompt each row is.
    A hypothesis of the S^-1 family is compared with M0*, a rival with the other families and the
    least-squares row. Contexts are the unit of folds, sign flips and resamples; with `blocks`
    (the block of each context, for contexts that share rows of a table) blocks are.
    Data on which the question cannot be answered gives a result that says why
    (`not_assessable`); only scores of another shape than the contexts are refused.
    """
    checked_scores(scores, contexts)
    settings = Settings(flips, folds, resamples)
    with one_blas_thread():
        study = prepare(
            scores,
            contexts,
            hypotheses,
            rng=rng,
            settings=settings,
            replicate=replicate,
            blocks=blocks,
        )
        moved = None
        if pairs is not None:
            moved = pairs_test(pairs, study.hypotheses, rng=rng, flips=flips, folds=folds)
        judged = judge(study, moved)
        return _result(study, judged, _design(study, judged), moved, contexts, flips)


def _design(study: Study, judged: Judged) -> DesignGate:
    columns = study.columns
    reached = attainable(study.data, columns.baseline, columns.ols, study.counts)
    inverse = [h for h, one in enumerate(study.hypotheses) if one.family == "inverse"]
    found = judged.contains[:, inverse].any(axis=1)
    rest = study.moments._replace(
        cross=study.moments.cross[:, :, ~found], total=study.moments.total[:, ~found]
    )
    power: tuple[tuple[float, float], ...] = ()
    if rest.total.shape[1]:
        critical = critical_value(judged.contained.null, LEVEL)
        power = found_by_share(folded(rest, study.groups), columns.baseline, columns.ols, critical)
    return DesignGate(
        attainable=reached,
        identifies=bool(LEAST_ATTAINABLE <= reached.estimate <= 1.0),
        mde=least_share(power),
        power=power,
        rows=rest.total.shape[1],
    )


def _result(
    study: Study,
    judged: Judged,
    design: DesignGate,
    moved: PairsTest | None,
    contexts: ContextArrays,
    flips: int,
) -> RowTest:
    count, queries, examples, _ = study.columns.values.shape
    units, features = len(study.groups), contexts.x.shape[2]
    why = not_assessable(units, queries, examples, features)
    reason = NOT_ASSESSABLE if why else ""
    index = index_of_rows(study)
    return RowTest(
        hypotheses=tuple(h.name for h in study.hypotheses),
        hypothesis_families=tuple(h.family for h in study.hypotheses),
        baseline_version=baseline.VERSION,
        contexts=count,
        units=units,
        queries=queries,
        examples=examples,
        features=features,
        folds=study.data.folds,
        flips=flips,
        inversion_index=study.wide_intervals(index),
        pairs=moved,
        families=_families(study),
        design=design,
        says=texts(study, judged, index, reason=reason, gate=design.identifies),
        chosen=choose(study, judged, reason=reason, gate=design.identifies),
        not_assessable=why,
        preview=preview(units, queries),
        **_statistics(study, judged),
        **_reproducible(study),
    )


def _statistics(study: Study, judged: Judged) -> dict[str, Any]:
    rows, found = study.rows, judged.contained
    status = np.where(rows.outside, "outside", np.where(rows.blind, "blind", "tested"))
    return {
        "status": status,
        "t": study.wide(found.t),
        "p_corrected": study.wide(found.p),
        "coefficient": np.stack([study.wide(fold) for fold in found.coefficient]),
        "positive_in_folds": study.wide((found.coefficient > 0).sum(axis=0), 0.0).astype(np.int64),
        "unique_over_explained": study.wide_intervals(judged.unique),
        "unique_of_variance": study.wide_intervals(judged.of_variance),
        "explained": study.wide(judged.explained),
        "alone": study.wide_intervals(judged.alone),
        "lead": study.wide(judged.lead),
        "nearest_rival": _wide_texts(study, judged),
    }


def _reproducible(study: Study) -> dict[str, Any]:
    part = undefined(len(study.rows.tested))
    if study.shared is not None:
        part = reproducible_share(study.moments, study.shared, study.shared_counts)
    return {
        "share_of_reproducible": study.wide_intervals(reproducible_shares(study)),
        "reproducible": study.wide_intervals(part),
    }


def _wide_texts(study: Study, judged: Judged) -> NDArray[np.str_]:
    full = np.full((len(study.rows.blind), len(study.hypotheses)), "", dtype="<U20")
    full[study.rows.tested] = judged.nearest
    return full


def _families(study: Study) -> FamilyTest:
    found = family_tests(study.data, study.columns, study.signs, study.counts)
    return FamilyTest(
        found.families,
        study.wide(found.t),
        study.wide(found.p_corrected),
        study.wide_intervals(found.unique_over_explained),
        study.wide(found.alone),
        study.wide(found.alone_t),
        study.wide(found.alone_p),
    )
