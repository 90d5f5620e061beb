"""Presets: several studies that together answer one question."""

from typing import Any

from hatlens.config import StudyConfig, build_config
from prompts.refusal import about, unknown_name

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "main": {
        "behaviour-p1": {
            "features": 1,
            "twins": (),
            "pairs": 0,
            "replicate": False,
            "reading_contexts": 32,
        },
        "rows-p2": {"features": 2, "condition": 100.0, "reading_contexts": 32},
    },
}
"""Name of the preset, name of the study, and the settings in which it differs from the rest."""

PREVIEW: dict[str, Any] = {"contexts": 16, "pairs": 8, "reading_contexts": 6}


def preset_studies(name: str, values: dict[str, Any]) -> list[StudyConfig]:
    """The studies of a preset; `values` are settings that hold for all of them."""
    if name not in PRESETS:
        with about("preset"):
            raise unknown_name("preset", name, PRESETS)
    return [
        build_config({**settings, **values, "name": study})
        for study, settings in PRESETS[name].items()
    ]
