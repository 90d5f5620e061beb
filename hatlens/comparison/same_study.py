"""A finished study of attention rows on the same examples, read beside a comparison."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hatlens.comparison.config import SimilarityConfig, build_similarity
from hatlens.comparison.regression import REGRESSION, regression_contexts
from hatlens.conclude import main_set
from hatlens.sets import stored_form
from hatlens.store import RunFolder
from hatlens.study import stored_config, study_folders
from prompts.refusal import Refusal

Result = dict[str, Any]
LEAST_SQUARES = "ols"
SHARED: Mapping[str, str] = MappingProxyType(
    {
        "model": "model",
        "revision": "revision",
        "dtype": "dtype",
        "seed": "seed",
        "features": "features",
        "demos": "examples",
        "queries": "queries",
        "condition": "condition",
        "noise": "noise",
        "layout": "layout",
        "codec": "codec",
        "bos": "bos",
    }
)
"""Settings of a comparison that are taken from a study, and what they are called there."""
HERE: Mapping[str, Any] = MappingProxyType(
    {
        "data": None,
        "function": "linear",
        "x_scale": 1.0,
        "w_scale": 1.0,
        "query_push": 0.0,
        "quantize": None,
    }
)
"""Settings that only a study has, and what they are in every comparison."""


def with_study(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a comparison, those of the study that `study` names filled in.

    Refuses what is no finished study, settings that a comparison does not have, and given ones
    that differ from the study's, naming both.
    """
    if values.get("study") is None:
        return dict(values)
    folder = study_folder(str(values["study"]))
    study = stored_config(folder)
    where = str(folder.path)
    for key, here in HERE.items():
        if (came := getattr(study, key)) != here:
            raise Refusal(
                f"a comparison has {key} {here!r} only; the study has {key} {came!r}", where=where
            )
    taken: dict[str, Any] = {
        "task": REGRESSION,
        "template": "plain",
        **{key: getattr(study, theirs) for key, theirs in SHARED.items()},
    }
    for key, theirs in taken.items():
        if (
            key in values
            and (given := getattr(build_similarity({key: values[key]}), key)) != theirs
        ):
            raise Refusal(
                f"setting {key!r}: {given!r} was given, and the study has {theirs!r}, which a "
                "comparison with --study takes from there",
                where=where,
            )
    contexts = study.contexts
    sets = values.get("sets", min(SimilarityConfig.model_fields["sets"].default, contexts))
    if build_similarity({"sets": sets}).sets > contexts:
        raise Refusal(
            f"each set is one main context of the study: needed sets of at most {contexts}, "
            f"came {sets}",
            where=where,
        )
    return {**values, **taken, "sets": sets}


def study_folder(run: str) -> RunFolder:
    """The folder of one finished study; of a preset's several it must be named which."""
    folders = study_folders(Path(run))
    if folders[0].path != Path(run):
        names = ", ".join(str(folder.path) for folder in folders)
        raise Refusal(f"needed one study, came the run of a preset; name one of {names}", where=run)
    folders[0].read_results()
    return folders[0]


def study_facts(config: SimilarityConfig, out: Path) -> Result | None:
    """What the comparison in `out` says of the study on the same examples; None without one.

    Refuses a study whose stored examples or queries are not those of the comparison's sets.
    """
    if config.study is None:
        return None
    folder = study_folder(config.study)
    refuse_other_examples(config, folder)
    result, manifest = folder.read_results(), folder.manifest()
    row = next((o for o in result["row_test"] if o["hypothesis"] == LEAST_SQUARES), None)
    page = folder.path / "report.html"
    return {
        "run": str(folder.path),
        "link": Path(os.path.relpath(page.resolve(), out.resolve())).as_posix(),
        "file_hash": manifest["model"]["file_hash"],
        "sentence": result["verdict"]["headline"],
        "label": result["verdict"]["label"],
        "behaviour": result["behaviour"]["verdict"],
        "contexts": stored_config(folder).contexts,
        "row": row,
        "twins": [
            {
                "kind": twin["kind"],
                "row": next(
                    (o for o in twin["row_test"] if o["hypothesis"] == LEAST_SQUARES), None
                ),
            }
            for twin in result["twins"]
        ],
    }


def other_weights(manifest: Result) -> list[str]:
    """A warning where the study ran other weights than the comparison, of one name."""
    study = manifest.get("study")
    if not study or study["file_hash"] == manifest["model"]["file_hash"]:
        return []
    return [f"the study in {study['run']} was run on other weights of the model's name"]


def refuse_other_examples(config: SimilarityConfig, folder: RunFolder) -> None:
    """Refuse where a number of set s is printed otherwise in main context s of the study."""
    theirs, ours = main_set(folder), stored_form(regression_contexts(config))
    text = np.vectorize(regression_contexts(config).codec.text, otypes=[np.str_])
    pairs = {
        "x of example": (ours.x_text, theirs.x_text),
        "x of query": (ours.query_text, theirs.query_text),
        "y of example": tuple(text(one.printed_y(one.y)) for one in (ours, theirs)),
        "y of query": tuple(text(one.printed_y(one.targets)) for one in (ours, theirs)),
    }
    for name, (here, there) in pairs.items():
        here, there = here[: config.sets], there[: config.sets]
        if here.shape != there.shape:
            raise Refusal(
                f"needed the study's examples; {name}s are {here.shape} here and {there.shape} "
                "there",
                where=str(folder.path),
            )
        if (differ := np.argwhere(here != there)).size:
            first = tuple(differ[0])
            raise Refusal(
                f"needed the study's examples; {name} {first[1] + 1} of context {first[0] + 1} is "
                f"{str(here[first])!r} here and {str(there[first])!r} there",
                where=str(folder.path),
            )
