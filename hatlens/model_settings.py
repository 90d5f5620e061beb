"""Settings that a built-in model brings: the prompts it was trained on, where a user names none."""

from collections.abc import Mapping
from typing import Any

from probes.registry import BUILT_IN


def brought_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the model among the given settings brings for those that were not given."""
    built_in = BUILT_IN.get(str(given.get("model")))
    if built_in is None:
        return {}
    return {key: value for key, value in built_in.settings.items() if key not in given}


def brought_sentence(given: Mapping[str, Any]) -> str:
    """The same in one line for people; empty where the model brings nothing."""
    brought = brought_settings(given)
    if not brought:
        return ""
    words = ", ".join(f"{key} {value}" for key, value in brought.items())
    return f"{given['model']} was trained on these prompts, so they are used: {words}"
