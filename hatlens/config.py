"""The settings of one study: the same fields as flags, as YAML keys and as keyword arguments."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hatlens.model_settings import brought_settings
from prompts.refusal import Refusal, unknown_name

_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NOTHING = ("", "null", "~")


def _plain_number(value: object) -> object:
    """Text is a number only in one unambiguous spelling: not 010, not 1_000, not yes."""
    if isinstance(value, bool):
        raise ValueError(f"needs a number, got {value!r}")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError(f"needs a number written plainly (such as 10 or 1e-3), got {value!r}")
    return float(value) if isinstance(value, str) and not value.lstrip("+-").isdigit() else value


def _plain_flag(value: object) -> object:
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError(f"needs true or false, got {value!r}")
        return value == "true"
    return value


def _optional(value: object) -> object:
    return None if isinstance(value, str) and value in _NOTHING else value


Count = Annotated[int, BeforeValidator(_plain_number)]
Number = Annotated[float, BeforeValidator(_plain_number)]
Flag = Annotated[bool, BeforeValidator(_plain_flag)]
OptionalText = Annotated[str | None, BeforeValidator(_optional)]


def _several(value: object) -> object:
    """One text is a list of one; "none" is an empty list."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and list(value) == ["none"]:
        return ()
    return value


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]


FREE = (
    "memory",
    "twins",
    "twins_in_full",
    "controls",
    "reading",
    "reading_contexts",
    "cause",
    "cause_contexts",
    "random_sets",
    "heads",
    "behavioural_row",
    "behavioural_queries",
    "along",
    "hypotheses",
    "flips",
)
"""Settings that may change on stored rows: a twin is added, the analysis is done again."""


class StudyConfig(BaseModel):
    """What one study feeds to which model, and what it tests; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "study"
    model: str = "smollm2-135m"
    revision: OptionalText = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "cpu"
    memory: OptionalText = None
    trust_remote_code: Flag = False
    quantize: OptionalText = None

    features: Count = Field(2, ge=1, le=1000)
    examples: Count = Field(20, ge=2, le=5000)
    contexts: Count = Field(64, ge=1, le=100_000)
    queries: Count = Field(8, ge=1, le=5000)
    condition: Number = Field(100.0, ge=1, le=1e12)
    noise: Number = Field(0.1, ge=0, le=1e6)
    function: str = "linear"
    x_scale: Number = Field(1.0, gt=0, le=1000)
    w_scale: Number = Field(1.0, gt=0, le=1000)
    query_push: Number = Field(0.0, ge=0, le=7)

    data: OptionalText = None
    target: OptionalText = None
    columns: Texts = ()
    missing: Texts = ()
    date_format: OptionalText = None
    allow_dependent: Flag = False
    names: Literal["real", "anonymous"] = "real"

    layout: str = "arrow"
    codec: str = "unsigned-decimal"
    bos: Literal["auto", "always", "never"] = "auto"

    reading: Literal["exact", "greedy"] = "exact"
    mass: Number = Field(0.99, gt=0, le=1)
    reading_contexts: Count = Field(0, ge=0, le=100_000)

    cause: Flag = False
    cause_contexts: Count = Field(32, ge=2, le=100_000)
    random_sets: Count = Field(19, ge=1, le=10_000)
    heads: Texts = ()

    behavioural_row: Count = Field(0, ge=0, le=100_000)
    behavioural_queries: Count = Field(2, ge=1, le=5000)
    along: Flag = False

    hypotheses: Texts = ("ols",)
    twins: Texts = ("score-scale-matched", "shuffled")
    twins_in_full: Flag = False
    controls: Flag = False
    pairs: Count = Field(32, ge=0, le=100_000)
    replicate: Flag = True
    flips: Count = Field(2000, ge=100, le=1_000_000)
    seed: Count = Field(0, ge=0, lt=2**63)


def build_config(values: dict[str, Any], *, where: str = "") -> StudyConfig:
    """A checked configuration; every problem is said as one sentence with its key.

    A built-in model brings the settings of its own prompts; those that are given win.
    """
    return checked(StudyConfig, values, {**brought_settings(values), **values}, where=where)


Settings = TypeVar("Settings", bound=BaseModel)


def checked(
    kind: type[Settings], given: Mapping[str, Any], filled: Mapping[str, Any], *, where: str
) -> Settings:
    """Settings of this kind; the first unknown or wrong one is refused with its key.

    `filled`: the given ones with what stands in where nothing is given.
    """
    for key in given:
        if key not in kind.model_fields:
            sentence = unknown_name("setting", str(key), kind.model_fields).sentence
            raise Refusal(sentence, where=where, setting=str(key))
    try:
        return kind(**filled)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        message = first["msg"].removeprefix("Value error, ")
        came = "" if "got" in message else f", got {first['input']!r}"
        sentence = f"setting {key!r}: {message}{came}"
        raise Refusal(sentence, where=where, setting=key) from None
