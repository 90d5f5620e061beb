"""A difference held for few demonstration sets, and by how much the model's exceeds a twin's."""

import numpy as np

from analysis.claims.few_sets import of_few_sets
from analysis.inference import UNDEFINED, Interval
from analysis.similarity.conditions import CONDITIONS, MATCHED
from analysis.similarity.records import Floats
from analysis.similarity.resampling import Paired, Resamples, over_layers, paired
from hatlens.comparison.norms import is_far, norm_ratio
from hatlens.comparison.stored import Stored


def held(found: Paired, matched: Floats, mismatched: Floats) -> Paired:
    """The same of matched and mismatched (set, query, layer), its difference and p held for few
    sets: a bootstrap of five that differ alone claims too often."""
    change = over_layers(np.asarray(matched - mismatched))
    wider = of_few_sets(found.difference, found.p, change)
    return found._replace(difference=wider.interval, p=wider.p)


def held_pair(matched: Floats, mismatched: Floats, resamples: Resamples) -> Paired:
    """Matched against mismatched, `held`."""
    return held(paired(matched, mismatched, rng=resamples), matched, mismatched)


def beyond_twin(
    model: Stored, twin: Stored, names: tuple[str, str, str], resamples: Resamples
) -> Interval:
    """The model's matched minus mismatched, minus the twin's.

    names: position, mismatch and measure. Undefined where the twin has other sets, or where on any
    set one of its fine-tunings diverged or reached another update norm than the model's own.
    """
    position, mismatch, key = names
    keys = [(position, condition, key) for condition in (MATCHED, mismatch)]
    if twin.sets != model.sets or any(name not in twin.keys for name in keys):
        return UNDEFINED
    if not all(same_norms(model, twin, place, CONDITIONS[mismatch].ft) for place in twin.sets):
        return UNDEFINED
    changes = [one.values(keys[0]) - one.values(keys[1]) for one in (model, twin)]
    return held_pair(changes[0], changes[1], resamples).difference


def same_norms(model: Stored, twin: Stored, place: int, run: str) -> bool:
    """Whether a twin's fine-tunings on a set, its own and the mismatched one, have a norm near that
    of the model's own; a mismatch that is no fine-tuning has none."""
    fits = twin.fits(place)
    ratios = [norm_ratio(model, twin, place, one) for one in {"ft", run} & fits.keys()]
    return all(np.isfinite(one) and not is_far(one) for one in ratios)
