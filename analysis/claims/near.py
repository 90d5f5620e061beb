"""C13: demonstrations near the query act more (KATE, 2101.06804)."""

import numpy as np

from analysis.claims.finding import Finding, not_assessable
from analysis.inference import ALPHA, Interval
from analysis.similarity.near_examples import levelled, near_draws, residual
from analysis.similarity.records import Floats

LEAST_QUERIES, LEAST_SHOWN = 10, 2
LEAST_CORRELATION = 0.1
"""Cohen's small effect: the margin is the slope at which similarity, beside the covariates,
correlates this much with effects."""


def near_finding(
    effects: Floats, similarity: Floats, matches: Floats, *, rng: np.random.Generator
) -> Finding:
    """Demonstrations more similar to their query add more to log p(gold), beside covariates.

    All (query, demonstration): `effects`, log p of the right answer behind all demonstrations minus
    that behind all but this one, nats; `similarity`, measured outside the model; `matches`, 1 where
    the demonstration's label is the query's. Each query and each demonstration has a level of its
    own, which holds slot and length fixed, and label match is a covariate.

    The effect, in nats for one unit of similarity, is the slope minus its mean when similarities
    are dealt out anew among queries; its interval resamples whole queries. p is that of
    the randomisation, (1 + draws at least as high) / (1 + draws). Not assessable of fewer than 10
    queries or 2 demonstrations, or where similarity does not vary beyond the covariates.
    """
    queries, shown = effects.shape
    if queries < LEAST_QUERIES or shown < LEAST_SHOWN:
        return not_assessable(
            f"{queries} queries and {shown} demonstrations are too few: it takes {LEAST_QUERIES} "
            f"and {LEAST_SHOWN}"
        )
    found = near_draws(effects, similarity, matches, rng=rng)
    nulls = found.nulls[np.isfinite(found.nulls)]
    if not np.isfinite(found.slope) or not len(nulls):
        return not_assessable("similarity does not differ beyond query, demonstration and label")
    centre = float(nulls.mean())
    levels = (100 * ALPHA / 2, 100 * (1 - ALPHA / 2))
    low, high = np.nanpercentile(found.resampled, levels) - centre
    effect = Interval(found.slope - centre, float(low), float(high))
    figures = (
        f"{found.slope:.3g} nats for one unit of similarity, {centre:.2g} on average under other "
        f"queries' similarities, on {queries} queries of {shown} demonstrations"
    )
    return Finding(
        effect=effect,
        p=float((1 + (nulls >= found.slope).sum()) / (1 + len(nulls))),
        margin=margin_of(effects, similarity, matches),
        figures=figures + labels_said(matches),
    )


def margin_of(effects: Floats, similarity: Floats, matches: Floats) -> float:
    """The slope at a partial correlation of .1, nats for one unit of similarity."""
    left = residual(levelled(effects), levelled(matches))
    own = residual(levelled(similarity), levelled(matches))
    return LEAST_CORRELATION * float(np.linalg.norm(left) / np.linalg.norm(own))


def labels_said(matches: Floats) -> str:
    """That the demonstrations' labels were not balanced, as far as queries' labels tell them."""
    counts = np.unique(matches, axis=0).sum(axis=1).astype(int)
    if counts.sum() < matches.shape[1]:
        counts = counts[counts > 0]
    if len(counts) < 2 or counts.max() - counts.min() <= 1:
        return ""
    shown = " and ".join(str(count) for count in sorted(counts, reverse=True))
    return f"; labels were not balanced ({shown} demonstrations), label match is a covariate"
