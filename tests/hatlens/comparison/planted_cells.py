"""Stored cells of a comparison whose likeness is planted, without a model."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from analysis.claims.attention_maps import MEASURES
from analysis.claims.attention_outputs import MEASURE
from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.judging import Judging
from hatlens.comparison.stored import stored_variants
from hatlens.comparison.variants import cell_name, variants
from hatlens.store import RunFolder
from tests.analysis.claims.planted import answers, resamples, variation

SETS, QUERIES, LAYERS = 5, 60, 2


def settings(**changed: Any) -> SimilarityConfig:
    return build_similarity({"twins": ("shuffled",), "sets": SETS, "queries": QUERIES, **changed})


def planted(
    folder: Path,
    *,
    gain: float = 0.2,
    twin_gain: float = 0.0,
    noise: float = 0.1,
    shared: float = 8.0,
    place: float = 0.7,
    config: SimilarityConfig | None = None,
    cells: Mapping[str, Any] = MappingProxyType({}),
) -> Judging:
    """A model as alike by `gain`, its answers by `shared`, its outputs by `place`, and a twin.

    cells: stands in every cell of the model in place of what is planted; None leaves it out.
    """
    config, store = config or settings(), RunFolder(folder)
    gold = answers(shared, queries=QUERIES).gold[: config.sets]
    store.update_manifest(gold=gold.tolist())
    for number, variant in enumerate(variants(config)):
        own = gain if variant.seed is None else twin_gain
        for where in range(config.sets):
            rng = np.random.default_rng([number, where])
            cell: dict[str, Any] = {**likeness(own, noise, rng), **runs(shared, place, where)}
            if variant.seed is None:
                cell |= cells
            kept = {key: np.asarray(value) for key, value in cell.items() if value is not None}
            store.write_arrays(cell_name(variant, where), kept)
    stored = stored_variants(config, store)
    return Judging(config, store, stored, resamples(max(1, len(stored[0].sets)), QUERIES))


def likeness(gain: float, noise: float, rng: np.random.Generator) -> dict[str, Any]:
    """Measures of attention, alike by .2 and by `gain` more if matched, and equal norms."""
    found: dict[str, Any] = {"failed": "", "fit/ft/norm": 0.1, "fit/ft-other/norm": 0.1}
    for key in (MEASURE, *MEASURES):
        both = rng.normal(0.2, 0.05, (QUERIES, 1))
        for condition, more in (("matched", gain), ("other demonstrations", 0), ("other query", 0)):
            value = both + more + rng.normal(0, noise, (QUERIES, LAYERS))
            found[f"answer/{condition}/{key}"] = value
    return found


def runs(shared: float, place: float, where: int) -> dict[str, Any]:
    """Labels and total variation of one set."""
    given, spread = answers(shared, queries=QUERIES), variation(place)
    gold, other = given.gold[where], 1 - given.gold[where]
    found: dict[str, Any] = {}
    flags = {"ft": given.ft, "icl": given.icl, "icl-other": given.icl_other, "ft-other": given.ft}
    by_run = {name: np.where(right[where], 1.0, -1.0) for name, right in flags.items()}
    for name, margin in {"zsl": given.margin[where], **by_run}.items():
        logp = np.zeros((QUERIES, 2, 2))
        logp[np.arange(QUERIES), gold] = margin[:, None] / 2
        logp[np.arange(QUERIES), other] = -margin[:, None] / 2
        found[f"labels/{name}"] = logp - 5
    for condition, values in (
        ("matched", spread.matched),
        ("other demonstrations", spread.mismatched),
        ("another order", spread.order),
    ):
        found[f"answer/{condition}/total variation"] = values[where][:, None]
    found["answer/matched/total variation (ICL, ZSL)"] = spread.change[where][:, None]
    return found
