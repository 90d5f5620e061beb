"""What the stored answers about made-up facts say."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from analysis.claims.finding import Finding, not_assessable
from analysis.claims.generalisation import Alike, alike, generalisation_finding
from analysis.design import Floats
from analysis.inference import ALPHA, Interval, proportion_interval
from analysis.verdict import capital
from hatlens.comparison.config import SimilarityConfig
from hatlens.comparison.generalisation import RUNS, generalisation_cells, right_of
from hatlens.store import RunFolder
from prompts.tasks.generalisation import CANDIDATES, INFERRED, KINDS

NOT_ASKED = "it was not asked for (--generalise 20)"


class Answered(NamedTuple):
    """The sets whose fine-tuning did not diverge, `failed` what the others said. `right`: by run
    and kind of question, 1 for a right answer and 0 for a wrong one, all sets together."""

    sets: tuple[dict[str, NDArray[Any]], ...]
    failed: tuple[str, ...]
    right: dict[str, dict[str, Floats]]


def read_answers(config: SimilarityConfig, folder: RunFolder) -> Answered:
    """The stored sets of facts of a comparison that asked for them."""
    cells = [folder.read_arrays(name) for name in generalisation_cells(config)]
    known = tuple(cell for cell in cells if not str(cell["failed"]))
    right = {
        run: {
            kind: np.concatenate(
                [right_of(cell[f"logp/{run}"])[cell["kind"] == kind] for cell in known]
            )
            for kind in KINDS
        }
        for run in (RUNS if known else ())
    }
    failed = tuple(str(cell["failed"]) for cell in cells if str(cell["failed"]))
    return Answered(known, failed, right)


def generalisation_claim(config: SimilarityConfig, folder: RunFolder) -> Finding:
    """The finding, uncorrected; not assessable where it was not asked for."""
    if not config.generalise:
        return not_assessable(NOT_ASKED)
    answered = read_answers(config, folder)
    if not answered.sets:
        return not_assessable(f"on every set of facts {answered.failed[0]}")
    return generalisation_finding(
        answered.right["icl"], answered.right["ft"], sets=len(answered.sets)
    )


def generalisation_result(config: SimilarityConfig, folder: RunFolder) -> dict[str, Any] | None:
    """Shares right by run and kind of question, how facts were learnt, and a sentence; None where
    it was not asked for."""
    if not config.generalise:
        return None
    answered, found = read_answers(config, folder), generalisation_claim(config, folder)
    result: dict[str, Any] = {
        "facts": config.generalise,
        "sets": len(answered.sets),
        "failed": list(answered.failed),
        "chance": 1 / CANDIDATES,
        "effect": found.effect,
        "p": found.p,
        "assessable": not found.reason,
        "sentence": sentence_of(found),
    }
    if not answered.sets:
        return result
    right = answered.right
    sets = len(answered.sets)
    tests = {kind: alike(right["icl"][kind], right["ft"][kind], sets=sets) for kind in INFERRED}
    return result | {
        "shown": [int(cell["shown"]) for cell in answered.sets],
        "epochs": [len(cell["losses"]) for cell in answered.sets],
        "rate": [float(cell["rate"]) for cell in answered.sets],
        "losses": [cell["losses"] for cell in answered.sets],
        "runs": {
            run: {kind: share(values) for kind, values in of.items()} for run, of in right.items()
        },
        "differences": {kind: difference(test) for kind, test in tests.items()},
    }


def share(values: Floats) -> Interval:
    """The share of right answers, exact interval."""
    return proportion_interval(int(values.sum()), len(values))


def difference(test: Alike) -> dict[str, Any]:
    """Share right in ICL less that in FT, and p that they are not alike."""
    return {"difference": test.difference, "p": test.p}


def sentence_of(found: Finding) -> str:
    """What was found, before correction over claims."""
    if found.reason:
        return f"Not assessable: {found.reason}{f' ({found.figures})' if found.figures else ''}."
    if found.p <= ALPHA and found.effect.low > 0:
        said = "alike" if found.beats else "alike, but no better than guessing"
    elif found.effect.high < 0:
        said = "not alike"
    else:
        said = "neither seen to be alike nor to differ by more than the margin"
    return f"{capital(found.figures)}: {said}, p {found.p:.2g} before correction over claims."


def generalisation_table(config: SimilarityConfig, folder: RunFolder) -> dict[str, pd.DataFrame]:
    """One line a set, question and run, by table name; none where it was not asked for."""
    if not config.generalise:
        return {}
    parts = []
    for place, name in enumerate(generalisation_cells(config)):
        cell = folder.read_arrays(name)
        for run in RUNS:
            logp = cell[f"logp/{run}"]
            parts.append(
                pd.DataFrame(
                    {
                        "set": place,
                        "kind": cell["kind"],
                        "fact": cell["fact"],
                        "question": cell["question"],
                        "answer": cell["answer"],
                        "run": run,
                        "log_probability": log_softmax(logp, axis=1)[:, 0],
                        "right": right_of(logp),
                    }
                )
            )
    return {"generalisation": pd.concat(parts)}
