"""The controls of `--controls`: where the row test must find nothing, and where the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.bank import Hypothesis
from analysis.behaviour import Behaviour, behaviour
from analysis.design import ContextArrays
from analysis.foreign import FOREIGN, foreign_least_squares
from analysis.row_test import RowTest, row_test
from hatlens import stored_rows, tables
from hatlens.cells import TRAINED
from hatlens.config import StudyConfig
from hatlens.sets import (
    CONTROL_SETS,
    ORDER_PERMUTED,
    SURFACE,
    Y_PERMUTED,
    StoredSet,
    load_set,
)
from hatlens.store import RunFolder

SPLIT_HALF = "split_half"
EXPECTED = {
    FOREIGN: "no component: a row that uses its own S does not follow another context's",
    Y_PERMUTED: "the same rows, since least-squares weights do not depend on y; no answers",
    ORDER_PERMUTED: "the same rows and answers",
    SURFACE: "the same rows and answers, printed by another codec",
    SPLIT_HALF: "the same row in both halves",
}
"""Each control and what it shows if the head computes least squares of its own examples."""


@dataclass(frozen=True)
class Control:
    """One control of the trained model; `half` says which half of the contexts, if any."""

    kind: str
    half: str
    test: RowTest
    behaviour: Behaviour | None


def run_controls(
    config: StudyConfig,
    folder: RunFolder,
    arrays: ContextArrays,
    hypotheses: Sequence[Hypothesis],
    every: Sequence[Hypothesis],
) -> list[Control]:
    """Every control of a study whose cells are all there; none where they were not asked for.

    `hypotheses` are tested on the rows, `every` hypothesis is compared with the answers.
    """
    if not config.controls:
        return []
    scores = stored_rows.set_scores(folder, TRAINED)
    blocks = np.asarray(folder.manifest()["contexts"]["blocks"])
    found = []
    if len(arrays.x) > 1:
        foreign = _tested(config, scores, arrays, [foreign_least_squares()], blocks, 0)
        found.append(Control(FOREIGN, "", foreign, None))
    for place, name in enumerate(CONTROL_SETS, start=1):
        stored = load_set(folder, name)
        if stored is None:
            continue
        _, values = stored_rows.answers(folder, TRAINED, name)
        changed = stored.arrays(values)
        test = _tested(
            config,
            stored_rows.set_scores(folder, TRAINED, name),
            changed,
            hypotheses,
            blocks,
            place,
        )
        found.append(Control(name, "", test, _answers(folder, changed, stored, every)))
    for place, (half, chosen) in enumerate(halves(blocks).items(), start=1 + len(CONTROL_SETS)):
        part = ContextArrays(*(field[chosen] for field in arrays))
        test = _tested(config, scores[chosen], part, hypotheses, blocks[chosen], place)
        found.append(Control(SPLIT_HALF, half, test, None))
    return found


def halves(blocks: Any) -> dict[str, Any]:
    """Contexts (C,) of the first and second half of the resampled units, which no unit crosses."""
    units = np.unique(blocks)
    first = np.isin(blocks, units[::2])
    return {"first": first, "second": ~first}


def _tested(
    config: StudyConfig,
    scores: stored_rows.Scores,
    arrays: ContextArrays,
    hypotheses: Sequence[Hypothesis],
    blocks: Any,
    stream: int,
) -> RowTest:
    return row_test(
        scores,
        arrays,
        hypotheses,
        rng=np.random.default_rng([config.seed, 10, stream]),
        flips=config.flips,
        blocks=np.unique(blocks, return_inverse=True)[1],
    )


def _answers(
    folder: RunFolder, arrays: ContextArrays, stored: StoredSet, every: Sequence[Hypothesis]
) -> Behaviour:
    facts = folder.manifest()["contexts"]
    return behaviour(
        arrays,
        stored.targets,
        every,
        blocks=facts["blocks"],
        unit=facts["unit"],
        printed_size=float(stored.half_range[-1]),
    )


def controls_result(labels: stored_rows.RowLabels, controls: Sequence[Control]) -> list[Any]:
    """The `controls` list of the result."""
    return [
        {
            "kind": one.kind,
            **({"half": one.half} if one.half else {}),
            "expected": EXPECTED[one.kind],
            "row_test": tables.best_rows(labels, one.test),
            "rows": {"tested": one.test.tested, "blind": one.test.blind},
            "attainable": one.test.design.attainable,
            "behaviour": None if one.behaviour is None else tables.behaviour_result(one.behaviour),
            "not_assessable": one.test.not_assessable,
        }
        for one in controls
    ]


def reliability(controls: Sequence[Control]) -> dict[str, Any] | None:
    """How well two halves of the contexts agree on which rows least squares explains.

    Spearman's rank correlation of the first hypothesis' unique share over the rows tested in both
    halves, and what that says of the whole set (Spearman-Brown, 2 r / (1 + r)): the ceiling of any
    agreement between row maps. None without controls, or with fewer than 3 rows.
    """
    tests = [one.test for one in controls if one.kind == SPLIT_HALF]
    if len(tests) != 2:
        return None
    both = np.logical_and.reduce([one.status == "tested" for one in tests])
    shares = [one.unique_of_variance.estimate[both, 0] for one in tests]
    finite = np.isfinite(shares).all(axis=0)
    if finite.sum() < 3:
        return None
    first, second = (pd.Series(share[finite]) for share in shares)
    r = float(first.corr(second, method="spearman"))
    return {"rows": int(finite.sum()), "halves": r, "whole": 2 * r / (1 + r)}


def controls_table(labels: stored_rows.RowLabels, controls: Sequence[Control]) -> pd.DataFrame:
    """One line a control and hypothesis: its best row, and what the answers are called."""
    lines = [
        {
            "control": one.kind,
            "half": one.half,
            "expected": EXPECTED[one.kind],
            **{key: value for key, value in entry.items() if not hasattr(value, "_asdict")},
            **{
                column: bound
                for key, value in entry.items()
                if hasattr(value, "_asdict")
                for column, bound in tables.interval_columns(key, value).items()
            },
            "answers": "" if one.behaviour is None else one.behaviour.label,
        }
        for one in controls
        for entry in tables.best_rows(labels, one.test)
    ]
    return pd.DataFrame(lines)
