"""Re-paired twin contexts: does a row change as S^-1 does when only other examples change?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis import baseline
from analysis.bank import Hypothesis, rows
from analysis.bank.geometry import geometry
from analysis.centring import double_centred
from analysis.content_columns import kernel_columns, scaled_columns
from analysis.design import ContextArrays, Floats
from analysis.flips import corrected_p, flip_signs, max_t_null, t_statistic
from analysis.folds import assign_folds, compare, folded, log_ratio
from analysis.moments import row_moments

LEVEL = 0.05
UNMOVED = 1e-6


class Pairs(NamedTuple):
    """Twin contexts A and B with the same probes first, then fillers of which one is re-paired.

    scores_a, scores_b: (C2, M, R, probes), scores on the examples that both share;
    contexts_a, contexts_b: all examples, the probes first.
    """

    scores_a: NDArray[np.floating]
    scores_b: NDArray[np.floating]
    contexts_a: ContextArrays
    contexts_b: ContextArrays


class PairsTest(NamedTuple):
    """Whether the change of a row from A to B holds a change of S^-1; arrays are (R, H).

    t, p_corrected: as in the row test, signs of pairs flipped, maximum over rows and hypotheses;
    coefficient: mean over folds; agrees: p_corrected <= .05 and coefficient > 0;
    unmoved: (R,), rows whose change is nil beside their own spread: t and p are NaN.
    """

    pairs: int
    t: Floats
    p_corrected: Floats
    coefficient: Floats
    agrees: NDArray[np.bool_]
    unmoved: NDArray[np.bool_]


def pairs_test(
    pairs: Pairs,
    hypotheses: list[Hypothesis],
    *,
    rng: np.random.Generator,
    flips: int,
    folds: int,
) -> PairsTest:
    """Compare the change of the rows with the kernel's and the context-scaled rows' change.

    M1 adds the change of the hypothesis to M0. A head that reads only the query, the example and
    the place does not change at all.
    """
    probes = pairs.scores_a.shape[-1]
    both = (pairs.contexts_a, pairs.contexts_b)
    rivals = [_rivals(one)[..., :probes] for one in both]
    own = [np.stack([rows(h, one) for h in hypotheses])[..., :probes] for one in both]
    change = np.concatenate([rivals[0] - rivals[1], own[0] - own[1]])
    columns = baseline.prepared(np.moveaxis(change, 0, -1))
    difference = np.asarray(pairs.scores_a, dtype=np.float64) - pairs.scores_b
    unmoved = _unmoved(pairs.scores_a, difference)
    seen = row_moments(np.where(unmoved[:, None], 0.0, difference), columns)
    groups = assign_folds(len(difference), folds, rng=rng)
    base = len(change) - len(hypotheses)
    data = folded(seen.moments, groups)
    compared = [compare(data, np.arange(base), k) for k in range(base, len(change))]
    ratios = np.stack([log_ratio(one) for one in compared], axis=-1)
    statistic = t_statistic(ratios)
    p = corrected_p(statistic, max_t_null(ratios, flip_signs(len(ratios), flips, rng=rng)))
    coefficient = np.stack([one.coefficient.mean(axis=0) for one in compared], axis=-1)
    found = [np.full((len(unmoved), len(hypotheses)), np.nan) for _ in range(3)]
    for wide, narrow in zip(found, (statistic, p, coefficient), strict=True):
        wide[seen.tested] = narrow
    agrees = (found[1] <= LEVEL) & (found[2] > 0)
    return PairsTest(len(groups), found[0], found[1], found[2], agrees, unmoved | seen.blind)


def _rivals(contexts: ContextArrays) -> Floats:
    members = {**kernel_columns(contexts), **scaled_columns(contexts, geometry(contexts))}
    return np.stack(list(members.values()))


def _unmoved(scores: NDArray[np.floating], difference: Floats) -> NDArray[np.bool_]:
    changed = np.zeros(scores.shape[2])
    own = np.zeros(scores.shape[2])
    for before, change in zip(scores, difference, strict=True):
        own += (double_centred(before.astype(np.float64).swapaxes(0, 1)) ** 2).sum(axis=(1, 2))
        changed += (double_centred(change.swapaxes(0, 1)) ** 2).sum(axis=(1, 2))
    return np.asarray(~(changed > UNMOVED * own) & np.isfinite(changed))
