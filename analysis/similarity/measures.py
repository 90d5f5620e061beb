"""The table of measures: one line each, a function of one query's runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from analysis.similarity import attention_maps, outputs, updates
from analysis.similarity.records import Floats, Runs

DAI, DEUTCH, SHEN = "2212.10559, section 4.3", "2311.07772, section 3", "2310.08540, section 4"


@dataclass(frozen=True)
class Measure:
    """One number for every layer of one query, or (1,) for the model's output.

    `name` and `variant` say which; `bounds` what it can be; `evidence` whether a difference
    between matched and mismatched demonstrations may be claimed on it (the others are described).
    """

    name: str
    variant: str
    of: Callable[[Runs], Floats]
    bounds: tuple[float, float]
    source: str
    evidence: bool = True

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
            Measure("SimAM", "", attention_maps.sim_am, COSINE, DAI, False),
            Measure("SimAM", "before", attention_maps.sim_am_before, COSINE, DAI, False),
            Measure("SimAM", "centred", attention_maps.sim_am_centred, COSINE, DAI, False),
            Measure(
                "SimAM", "before, centred", attention_maps.sim_am_before_centred, COSINE, DAI, False
            ),
            Measure("SimAM-delta", "", attention_maps.sim_am_delta, COSINE, DEUTCH),
            Measure("SimAM-delta", "centred", attention_maps.sim_am_delta_centred, COSINE, DEUTCH),
            Measure("update norm", "ICL", updates.relative_norm_icl, POSITIVE, DEUTCH, False),
            Measure("update norm", "FT", updates.relative_norm_ft, POSITIVE, DEUTCH, False),
            Measure("top-10 overlap", "", outputs.top_overlap, SHARE, SHEN),
            Measure("total variation", "", outputs.variation_icl_ft, SHARE, SHEN, False),
            Measure("total variation", "ICL, ZSL", outputs.variation_icl_zsl, SHARE, SHEN, False),
        )
    }
)
"""Every measure that needs no record of the learning, by key; Kendall's stand in `dual_form`."""
