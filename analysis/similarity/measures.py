"""The table of measures: one line each, a function of one query's runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from analysis.similarity import attention_maps, outputs, updates
from analysis.similarity.kendall_measures import (
    KENDALL,
    SOURCES,
    VARIANTS,
    kendall_key,
    kendall_variant,
)
from analysis.similarity.records import Floats, Runs

DAI, DEUTCH, SHEN = "2212.10559, section 4.3", "2311.07772, section 3", "2310.08540, section 4"


OUTPUTS, SCORES, NEXT = "attention outputs", "scores", "next token"


@dataclass(frozen=True)
class Measure:
    """One number for every layer of one query, or (1,) for the model's output.

    `name` and `variant` say which; `bounds` what it can be; `evidence` whether a difference
    between matched and mismatched demonstrations may be claimed on it (the others are described).
    `reads`: which part of the records: attention outputs, scores or the next token's chances.
    """

    name: str
    variant: str
    of: Callable[[Runs], Floats]
    bounds: tuple[float, float]
    source: str
    evidence: bool = True
    reads: str = OUTPUTS

    @property
    def key(self) -> str:
        """``name`` or ``name (variant)``."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


COSINE, POSITIVE, SHARE = (-1.0, 1.0), (0.0, float("inf")), (0.0, 1.0)
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        one.key: one
        for one in (
            Measure("SimAOU", "orthogonal", updates.sim_aou_orthogonal, COSINE, "ours; " + DEUTCH),
            Measure("SimAOU", "", updates.sim_aou, COSINE, DEUTCH),
            Measure("SimAOU", "normalised", updates.sim_aou_normalised, COSINE, DAI),
            Measure("SimAOU", "floor", updates.normalised_floor, SHARE, "ours; " + DAI, False),
            Measure("SimAM", "", attention_maps.sim_am, COSINE, DAI, False, SCORES),
            Measure("SimAM", "before", attention_maps.sim_am_before, COSINE, DAI, False, SCORES),
            Measure("SimAM", "centred", attention_maps.sim_am_centred, COSINE, DAI, False, SCORES),
            Measure(
                "SimAM",
                "before, centred",
                attention_maps.sim_am_before_centred,
                COSINE,
                DAI,
                False,
                SCORES,
            ),
            Measure("SimAM-delta", "", attention_maps.sim_am_delta, COSINE, DEUTCH, True, SCORES),
            Measure(
                "SimAM-delta",
                "centred",
                attention_maps.sim_am_delta_centred,
                COSINE,
                DEUTCH,
                True,
                SCORES,
            ),
            Measure("update norm", "ICL", updates.relative_norm_icl, POSITIVE, DEUTCH, False),
            Measure("update norm", "FT", updates.relative_norm_ft, POSITIVE, DEUTCH, False),
            Measure("top-10 overlap", "", outputs.top_overlap, SHARE, SHEN, True, NEXT),
            Measure("total variation", "", outputs.variation_icl_ft, SHARE, SHEN, False, NEXT),
            Measure(
                "total variation", "ICL, ZSL", outputs.variation_icl_zsl, SHARE, SHEN, False, NEXT
            ),
        )
    }
)
"""Every measure that needs no record of the learning, by key; Kendall's stand in `dual_form`."""


class Described(NamedTuple):
    """What stands in the tables of a measure, whichever records it is made from."""

    name: str
    variant: str
    bounds: tuple[float, float]
    source: str
    evidence: bool


DELTA_W, DELTA_W_NORM = "Delta W", "Delta W (norm)"
DESCRIBED: Mapping[str, Described] = MappingProxyType(
    {
        **{
            key: Described(one.name, one.variant, one.bounds, one.source, one.evidence)
            for key, one in MEASURES.items()
        },
        **{
            kendall_key(source, variant): Described(
                KENDALL, kendall_variant(source, variant), COSINE, DAI, not variant
            )
            for source in SOURCES
            for variant in VARIANTS
        },
        DELTA_W: Described(DELTA_W, "", COSINE, "2212.10559, section 3", True),
        DELTA_W_NORM: Described(DELTA_W, "norm", POSITIVE, "2212.10559, section 3", False),
    }
)
"""Every measure of the tables by key, those of `dual_form` and `weight_updates` included."""
