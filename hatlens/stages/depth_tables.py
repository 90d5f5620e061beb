"""What a study says of agreement along the prompt and through the layers: entries and tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.held_out import MODEL
from analysis.inference import Interval
from analysis.prediction_agreement import PredictionAgreement, agreement_frame
from analysis.prediction_agreement_steps import steps_frame
from hatlens.stages.depth_layers import LENS, RIDGE, Layers
from hatlens.stages.depth_prefix import Prefixes
from hatlens.tables import interval_columns

BEST = {
    "ilwd_share": min,
    "sim_w": max,
    "sensitivity_cosine": max,
    "sensitivity_l2": min,
    "sim_e": max,
}
"""For each measure which end is agreement."""
HALF = 0.5


def result_of(
    prefixes: Prefixes,
    measures: Sequence[PredictionAgreement],
    layers: Layers | None,
    *,
    printed_size: float,
) -> tuple[dict[str, Any], str]:
    """The main figures, and one sentence on each part."""
    result: dict[str, Any] = {
        "lengths": prefixes.lengths,
        "prefix": prefix_entries(prefixes, printed_size),
        "measures": measure_entries(measures),
        "layers": layer_entries(layers),
    }
    parts = [prefix_words(result["prefix"]), measure_words(result["measures"])]
    parts.append(layer_words(result["layers"]))
    return result, " ".join(part for part in parts if part)


def scaled(interval: Interval, size: float) -> Interval:
    return Interval(*(bound * size for bound in interval))


def prefix_entries(prefixes: Prefixes, printed_size: float) -> list[dict[str, Any]]:
    """For each length the errors (printed units) and the best step of each algorithm."""
    return [
        {
            "length": length,
            "error": {
                line.predictor: scaled(line.error, printed_size)
                for line in prefixes.lines
                if line.length == length
            },
            "best_steps": {
                step.algorithm: step.steps for step in prefixes.steps if step.place == length
            },
        }
        for length in prefixes.lengths
    ]


def measure_entries(measures: Sequence[PredictionAgreement]) -> dict[str, Any]:
    """Each measure of least squares, and the hypothesis that agrees best by it."""
    found = {}
    for name, end in BEST.items():
        known = {
            line.hypothesis: getattr(line, name).interval
            for line in measures
            if getattr(line, name) is not None
        }
        known = {key: one for key, one in known.items() if np.isfinite(one.estimate)}
        if known:
            # Names for the same predictions differ by rounding only: the first of them is said.
            best = end(known, key=lambda key: round(known[key].estimate, 9))
            found[name] = {"ols": known.get("ols"), "best": best, "best_value": known[best]}
    return found


def layer_entries(layers: Layers | None) -> list[dict[str, Any]]:
    """For each layer what its read-outs explain, and the hypothesis that the ridge one is like."""
    if layers is None:
        return []
    lens = layers.explained.get(LENS)
    return [
        {
            "layer": layer,
            "explained": explained,
            "nearest": layers.agreement[RIDGE][layer][0].hypothesis,
            "spd": layers.agreement[RIDGE][layer][0].spd,
            "lens_explained": None if lens is None else lens[layer],
            "numeral": layers.numeral[layer],
        }
        for layer, explained in enumerate(layers.explained[RIDGE])
    ]


def prefix_words(entries: Sequence[dict[str, Any]]) -> str:
    """How the error falls with more examples, beside least squares."""
    if not entries:
        return "Too few examples for answers along the prompt."
    first, last = entries[0], entries[-1]
    ends = [
        f"{one['error'][MODEL].estimate:.3g} after {one['length']} examples "
        f"(least squares {one['error']['ols'].estimate:.3g})"
        for one in ((first, last) if len(entries) > 1 else (first,))
    ]
    return f"Along the prompt the answers are off by {', and by '.join(ends)}, printed units."


def measure_words(entries: dict[str, Any]) -> str:
    """Errors over prefixes and sensitivity beside those of least squares."""
    named = {
        "sim_e": "errors over prefixes (SimE)",
        "sensitivity_cosine": "sensitivity to the query (cosine)",
    }
    said = []
    for name, what in named.items():
        one = entries.get(name)
        if one is not None and one["ols"] is not None:
            said.append(
                f"{what} {one['ols'].estimate:.2f} with least squares, most with {one['best']} "
                f"({one['best_value'].estimate:.2f})"
            )
    return f"Agreement: {'; '.join(said)}." if said else ""


def layer_words(entries: Sequence[dict[str, Any]]) -> str:
    """From which layer on the answer can be read off, and what it is like at the end."""
    if not entries:
        return ""
    last = entries[-1]
    layer = next((one["layer"] for one in entries if one["explained"].low > HALF), None)
    where = "after no layer" if layer is None else f"first after layer {layer}"
    return (
        f"What a ridge read-out fitted on other contexts explains of the answer's variance lies "
        f"surely above one half {where} (of {last['layer']}); after the last it is "
        f"{last['explained'].estimate:.2f}, and the read-out is nearest to {last['nearest']}."
    )


def tables_of(
    prefixes: Prefixes,
    measures: Sequence[PredictionAgreement],
    layers: Layers | None,
    *,
    printed_size: float,
) -> dict[str, pd.DataFrame]:
    """The tables of both parts; without layers those of the prompt alone."""
    found = {
        "prefix_agreement": prefix_table(prefixes, printed_size),
        "agreement_measures": agreement_frame(measures).rename(
            columns={"estimate": "value", "low": "value_low", "high": "value_high"}
        ),
        "best_steps": steps_table(prefixes, layers),
    }
    if layers is not None:
        found |= {"layers": layers_table(layers), "layer_agreement": layer_table(layers)}
    return {name: table for name, table in found.items() if len(table)}


def prefix_table(prefixes: Prefixes, printed_size: float) -> pd.DataFrame:
    """One line a length and predictor; errors as printed."""
    return pd.DataFrame(
        [
            {
                "length": line.length,
                "predictor": line.predictor,
                **interval_columns("error", scaled(line.error, printed_size)),
                **interval_columns("spd", line.spd),
            }
            for line in prefixes.lines
        ]
    )


def steps_table(prefixes: Prefixes, layers: Layers | None) -> pd.DataFrame:
    """One line an algorithm and place, along the prompt and through the layers."""
    frames = [steps_frame(prefixes.steps).assign(along="prefix")]
    if layers is not None:
        frames.append(steps_frame(layers.steps).assign(along="layer"))
    return pd.concat([frame for frame in frames if len(frame)] or frames)


def layers_table(layers: Layers) -> pd.DataFrame:
    """One line a read-out and layer."""
    return pd.DataFrame(
        [
            {
                "readout": name,
                "layer": layer,
                **interval_columns("explained", one),
                **interval_columns("numeral", layers.numeral[layer]),
                "nearest": layers.agreement[name][layer][0].hypothesis,
                **interval_columns("spd", layers.agreement[name][layer][0].spd),
            }
            for name, explained in layers.explained.items()
            for layer, one in enumerate(explained)
        ]
    )


def layer_table(layers: Layers) -> pd.DataFrame:
    """One line a read-out, layer and hypothesis, nearest first."""
    return pd.DataFrame(
        [
            {
                "readout": name,
                "layer": layer,
                "hypothesis": line.hypothesis,
                **interval_columns("spd", line.spd),
                **interval_columns("behind_nearest", line.behind_nearest),
                "separable": line.separable,
                "same_as": line.same_as,
            }
            for name, every in layers.agreement.items()
            for layer, lines in enumerate(every)
            for line in lines
        ]
    )
