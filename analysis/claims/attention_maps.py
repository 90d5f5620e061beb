"""C6: in-context learning and fine-tuning attend alike."""

from collections.abc import Mapping

from scipy import stats

from analysis.claims.beside_twins import NO_TWIN, BesideTwins
from analysis.claims.finding import Finding, not_assessable
from analysis.inference import ALPHA, Interval

MEASURES = ("SimAM-delta (centred)", "Kendall (queries)", "Kendall (inputs)")
MARGIN = 0.05
"""Of cosines as of tau: a model with shuffled weights has a tau that varies by .04 to .14 over its
seeds, so that less could not be told from an accident of the weights."""

WIDER = float(stats.norm.ppf(1 - ALPHA / 2 / len(MEASURES)) / stats.norm.ppf(1 - ALPHA / 2))
"""An upper bound of one of three measures at once, over that of one alone: 1.22."""


def attention_maps_finding(measures: Mapping[str, BesideTwins]) -> Finding:
    """Every measure of `MEASURES` is higher matched than mismatched, and beyond every twin.

    SimAM-delta is mismatched with FT on D', both Kendalls with another query's weights. All must
    pass (an intersection-union test): p is the largest of theirs, and estimate and bounds of the
    effect are each the smallest, in [-2, 2]. The upper bounds hold for all measures at once (each
    widened as a normal variable's, Bonferroni), since one that is low may contradict the claim:
    SimAM-delta's does. That of a Kendall does only where tau itself is below the margin too, since
    queries of a task resemble each other and another query's weights rank tokens much alike.
    Not assessable where one is missing or undefined, or no twin was run. Sources: 2212.10559,
    section 4.3; 2311.07772, section 3.
    """
    missing = {
        key: measures[key].undefined if key in measures else "was not recorded"
        for key in MEASURES
        if key not in measures or not measures[key].defined
    }
    if missing:
        return not_assessable("; ".join(f"{key} {said}" for key, said in missing.items()))
    tests = [measures[key] for key in MEASURES]
    figures = "; ".join(f"{key} {one.words}" for key, one in zip(MEASURES, tests, strict=True))
    if not all(one.twins for one in tests):
        return not_assessable(NO_TWIN, figures=figures)
    differences = [one.found.difference for one in tests]
    tops = [widened(one) for one in differences]
    itself = (
        tops[0],
        *(max(t, widened(k.found.matched)) for t, k in zip(tops[1:], tests[1:], strict=True)),
    )
    return Finding(
        Interval(
            min(one.estimate for one in differences),
            min(one.low for one in differences),
            min(tops),
        ),
        max(one.found.p for one in tests),
        MARGIN,
        figures=figures,
        beats=all(one.beats for one in tests),
        refutes=min(itself) < MARGIN,
    )


def widened(one: Interval) -> float:
    """The upper bound of one of three measures at once."""
    return one.estimate + WIDER * (one.high - one.estimate)
