"""The object that ``hatlens probe --json`` prints, from what was tested on each model."""

from dataclasses import dataclass
from typing import Any

from analysis.bank import hypothesis_named, rows
from analysis.behaviour import Behaviour
from analysis.ceiling import ceiling, correlation_with, score_scale
from analysis.design import ContextArrays
from analysis.row_test import RowTest
from analysis.separability import Separability
from analysis.survey import Alone
from analysis.verdict import Verdict
from hatlens import stored_rows, tables
from hatlens.cells import TRAINED
from hatlens.headline import headline
from hatlens.sets import MAIN
from hatlens.store import RunFolder, plain
from probes.rows import PARTS

TRIED = (
    "the default layout and codec were chosen among several, on other contexts than these; "
    "settings that you tried yourself are not counted"
)


@dataclass(frozen=True)
class Tested:
    """One model's rows and answers, tested."""

    variant: str
    seed: int
    arrays: ContextArrays
    test: RowTest
    behaviour: Behaviour
    alone: tuple[Alone, ...]
    separability: Separability | None = None


def study_result(
    folder: RunFolder,
    tested: list[Tested],
    labels: stored_rows.RowLabels,
    verdict: Verdict,
    seconds: float,
) -> dict[str, Any]:
    """The object that ``hatlens probe --json`` prints."""
    manifest = folder.manifest()
    trained = tested[0]
    found = trained.behaviour
    model = manifest["model"]
    result: dict[str, Any] = plain(
        {
            "model": {k: model[k] for k in ("name", "file_hash", "layers", "heads", "kv_heads")},
            "task": manifest["task"],
            "parity": manifest["parity"],
            "behaviour": tables.behaviour_result(found),
            "row_test": tables.best_rows(labels, trained.test),
            "rows": {
                "tested": trained.test.tested,
                "blind": trained.test.blind,
                "outside": trained.test.outside,
            },
            "design": {
                name: getattr(trained.test.design, name)
                for name in ("attainable", "identifies", "mde")
            },
            "pairs": tables.pairs_result(trained.test),
            "weights": weights_of_best(folder, labels, trained),
            "correction": correction(trained.test, manifest["contexts"]["unit"]),
            "twins": [twin(labels, one) for one in tested[1:]],
            "agreement": tables.agreement_result(found),
            "separability": tables.separability_result(trained.separability),
            "verdict": {
                "label": verdict.label,
                "sentence": f"{found.sentence} {verdict.sentence}",
                "attention": verdict.sentence,
                "families": verdict.families,
            },
            "preview": verdict.preview,
            "cost": cost(folder, tested, seconds),
            "warnings": manifest["contexts"]["warnings"],
            "manifest": {
                key: manifest[key]
                for key in ("versions", "contexts", "load_seconds", "notes")
                if key in manifest
            },
        }
    )
    verdict_entry = result["verdict"]
    verdict_entry["headline"] = headline(result)
    verdict_entry["sentence"] = f"{verdict_entry['headline']} {verdict_entry['sentence']}"
    return result


def correction(test: RowTest, unit: str) -> dict[str, Any]:
    """What the corrected p counts, and what it does not."""
    return {
        "rows": test.tested,
        "hypotheses": len(test.hypotheses),
        "flips": test.flips,
        "folds": test.folds,
        "unit": unit,
        "also_tried": TRIED,
    }


def twin(labels: stored_rows.RowLabels, one: Tested) -> dict[str, Any]:
    """The entry of an untrained twin."""
    return {
        "kind": one.variant,
        "seed": one.seed,
        "row_test": tables.best_rows(labels, one.test),
        "behaviour": tables.behaviour_result(one.behaviour),
        "rows": {"tested": one.test.tested, "blind": one.test.blind},
    }


def cost(folder: RunFolder, tested: list[Tested], analysis_seconds: float) -> dict[str, Any]:
    """Seconds and memory of the whole study."""
    manifest = folder.manifest()
    measured = manifest.get("measured", {})
    forward = sum(stored_rows.forward_seconds(folder, one.variant) for one in tested)
    return {
        "study_seconds": measured.get("seconds"),
        "analysis_seconds": analysis_seconds,
        "forward_seconds": forward,
        "capture_overhead": manifest.get("capture_overhead"),
        "peak_bytes": measured.get("peak_bytes"),
    }


def weights_of_best(
    folder: RunFolder, labels: stored_rows.RowLabels, tested: Tested
) -> dict[str, Any] | None:
    """Softmax weights of the best head beside least squares, with the ceiling of its score scale.

    None where no row is tested, or where the best row is a layer's sum (which has no softmax).
    """
    best = tested.test.chosen[0]
    place = labels.table().iloc[best.row]
    if best.row < 0 or place["head"] == stored_rows.LAYER_SUM:
        return None
    at = (
        slice(None),
        slice(None),
        labels.layers.index(place["layer"]),
        place["head"],
        PARTS.index(place["part"]),
    )
    weights = stored_rows.read_cells(folder, TRAINED, MAIN, "weight")[at]
    scores = stored_rows.read_cells(folder, TRAINED, MAIN, "score")[at]
    least_squares = rows(hypothesis_named("ols"), tested.arrays)
    scale = float(score_scale(scores[:, :, None])[0])
    return {
        **place.to_dict(),
        "correlation": correlation_with(weights, least_squares),
        "ceiling": float(ceiling(least_squares, scale)),
        "score_scale": scale,
    }
