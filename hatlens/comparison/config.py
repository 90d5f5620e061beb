"""The settings of one comparison: the same fields as flags, as YAML keys and as keyword arguments.

A preset is a set of values for the fields that are not given.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hatlens.config import Count, Flag, Number, OptionalText, Texts, checked
from prompts.refusal import Refusal, unknown_name
from prompts.tasks.generalisation import CANDIDATES


def _optional(value: object) -> object:
    return None if value in ("", "null", "~") else value


def _one_or_more(value: object) -> object:
    return (value,) if isinstance(value, (str, int)) else value


def _auto(value: object) -> object:
    return None if value == "auto" else value


OptionalCount = Annotated[Count | None, BeforeValidator(_optional)]
Counts = Annotated[tuple[Count, ...], BeforeValidator(_one_or_more)]
Rate = Annotated[Number | None, BeforeValidator(_auto)]

FREE = (
    "twins",
    "twin_seeds",
    "label_score",
    "orders",
    "order_queries",
    "kate_queries",
    "dose",
    "study",
    "generalise",
    "vector_queries",
)
"""Settings that may change on stored cells: a twin is added, the analysis is done again."""


class SimilarityConfig(BaseModel):
    """Which model learns which task, how it is fine-tuned, and what stands beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Literal["honest", "dai2023", "deutch2024"] = "honest"
    model: str = "smollm2-135m"
    revision: OptionalText = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "cpu"
    trust_remote_code: Flag = False

    task: str = "mr"
    data: OptionalText = None
    demos: Count = Field(16, ge=1, le=1000)
    queries: Count = Field(100, ge=1, le=100_000)
    sets: Count = Field(5, ge=1, le=1000)
    balanced: Flag = False
    bos: Literal["auto", "always", "never"] = "auto"
    template: Literal["plain", "chat"] = "plain"
    study: OptionalText = None
    other_task: str = "auto"
    seed: Count = Field(0, ge=0, lt=2**63)

    features: Count = Field(2, ge=1, le=1000)
    condition: Number = Field(100.0, ge=1, le=1e12)
    noise: Number = Field(0.1, ge=0, le=1e6)
    layout: str = "arrow"
    codec: str = "unsigned-decimal"

    ft: Literal["gd", "lcgd", "whole", "value-layer"] = "gd"
    lr: Rate = Field(None, ge=0, le=1e6)
    lr_split: Literal["tuning", "evaluation"] = "tuning"
    loss_tokens: Literal["all", "label"] = "all"
    layer: OptionalCount = Field(None, ge=0)
    step_norm: Literal["matched", "shared"] = "matched"
    readout: Literal["block", "attention"] = "block"
    layer_loss: Literal["sum", "mean"] = "sum"
    equal_norm: Flag = True

    position: Literal["answer", "label0", "both"] = "answer"
    label_score: Literal["sum", "mean"] = "sum"
    twins: Texts = ("score-scale-matched", "shuffled")
    twin_seeds: Counts = (0,)
    orders: Count = Field(0, ge=0, le=100)
    order_queries: Count = Field(8, ge=1, le=1000)
    kate_queries: Count = Field(0, ge=0, le=10_000)
    vector_queries: Count = Field(0, ge=0, le=10_000)
    generalise: Count = Field(0, ge=0, le=200)
    dose: Flag = False

    @property
    def positions(self) -> tuple[Literal["answer", "label0"], ...]:
        """The recorded positions, one or both."""
        return ("answer", "label0") if self.position == "both" else (self.position,)


_PUBLISHED: dict[str, Any] = {
    "position": "label0",
    "label_score": "mean",
    "loss_tokens": "all",
    "lr_split": "evaluation",
    "equal_norm": False,
    "balanced": False,
}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "honest": {},
        "dai2023": {**_PUBLISHED, "ft": "gd", "demos": 32},
        "deutch2024": {**_PUBLISHED, "ft": "lcgd", "step_norm": "shared", "demos": 32},
    }
)
"""What each preset sets where nothing else is given: `honest` is the defaults, the others the
switches of the code published with 2212.10559 and 2311.07772."""


def build_similarity(values: Mapping[str, Any], *, where: str = "") -> SimilarityConfig:
    """A checked configuration; every problem is said as one sentence with its key."""
    preset = values.get("preset", "honest")
    if preset not in PRESETS:
        sentence = unknown_name("preset", str(preset), PRESETS).sentence
        raise Refusal(sentence, where=where, setting="preset")
    filled = {**PRESETS[preset], **values}
    config = checked(SimilarityConfig, values, filled, where=where)
    if (config.ft == "value-layer") != (config.layer is not None):
        raise Refusal(
            f"setting 'layer': --ft value-layer needs the layer whose values move, and nothing "
            f"else takes one; got ft {config.ft!r} and layer {config.layer!r}",
            where=where,
            setting="layer",
        )
    if 0 < config.generalise < CANDIDATES:
        raise Refusal(
            f"setting 'generalise': needed {CANDIDATES} facts or more, as many as an answer's "
            f"candidates, or 0 for none; got {config.generalise!r}",
            where=where,
            setting="generalise",
        )
    return config
