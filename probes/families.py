"""Which families of models are tested, how each is captured, and why.

One row a family: the tests build its tiny model and hold capture to it, docs/families.md and
`hatlens doctor` say what stands here. To add a family is to add a row to one of the two tables.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from transformers import AutoConfig

from probes.attention_families import ATTENTION_FAMILIES
from probes.family import Family
from probes.recurrent_families import RECURRENT_FAMILIES

FAMILIES: Mapping[str, Family] = MappingProxyType({**ATTENTION_FAMILIES, **RECURRENT_FAMILIES})


def family_of(config: Any) -> Family | None:
    """The row of a model's configuration; None for a family that the table lacks."""
    text = config.get_text_config(decoder=True)
    for family in FAMILIES.values():
        same = all(getattr(text, name, None) == value for name, value in family.when.items())
        if family.model_type == text.model_type and same:
            return family
    return None


def tiny_config(family: Family) -> Any:
    """The configuration of a tiny model of this family."""
    return AutoConfig.for_model(family.model_type, **family.tiny)
