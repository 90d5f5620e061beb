"""Behavioural rows with heads set to their mean: the named heads', and some random sets'."""

import time

import numpy as np

from analysis.bank import rows
from analysis.design import ContextArrays
from analysis.row_change import Rows
from analysis.row_runs import rows_of_changes
from hatlens.config import StudyConfig
from hatlens.sets import MAIN
from hatlens.stages import behavioural_row as unchanged
from hatlens.stages.cause_answers import restored
from hatlens.stages.chosen_heads import used_contexts
from hatlens.stages.stage import Arrays, Bench, Evidence, index_of
from hatlens.store import RunFolder
from hatlens.stored_rows import head_grid
from probes.behavioural_row import behavioural_row
from probes.cause import mean_ablation

RANDOM_SETS = 3
"""Random sets whose behavioural rows are measured: each costs as much as the named heads'."""


def names_of(config: StudyConfig, folder: RunFolder, answers: str) -> list[str]:
    """One cell a context whose unchanged row was measured, beside the cell of the answers."""
    here, used = answers.rpartition("/")[0], used_contexts(config, folder)
    shape = folder.read_arrays(f"contexts/{MAIN}")["queries"].shape
    measured = unchanged.names_of(config, MAIN, used, shape[1])
    return [f"{here}/row/{one.split('/')[-2]}/{index_of(one)}" for one in measured]


def run_rows(bench: Bench, name: str, answers: Arrays) -> Arrays:
    """Mean answers with each y moved, heads at their mean: of the named ones, then of the sets.

    plus, minus (1 + sets, example, query), printed units, with the larger size of the unchanged
    rows, examples in their own order.
    """
    began = time.perf_counter()
    _, asked, index = name.rsplit("/", 2)
    caused = restored(answers, head_grid(bench.folder))
    drawn = unchanged.with_first_queries(bench.study.sets[MAIN], int(asked.partition("-")[0]))
    size = unchanged.sizes_of(drawn)[-1]
    tokens = bench.tokens[MAIN][int(index)]
    position = len(tokens.prefix) + tokens.suffixes.shape[1] - 1
    found = []
    for heads in (caused.named, *caused.sets[:RANDOM_SETS]):
        with mean_ablation(bench.loaded, caused, heads, position=position):
            row = behavioural_row(bench.loaded, drawn, int(index), bench.asking(), size=size)
        found.append(row)
    return {
        "plus": np.stack([one.plus for one in found]),
        "minus": np.stack([one.minus for one in found]),
        "size": np.array(size),
        "seconds": np.array(time.perf_counter() - began),
    }


def stored_rows(evidence: Evidence, answers: str) -> Rows | None:
    """Rows before and after, and the first hypothesis' row; None where they were not measured."""
    config, folder = evidence.config, evidence.folder
    names = names_of(config, folder, answers)
    before = unchanged.measured(config, folder)
    if before is None or not names or not all(folder.has(name) for name in names):
        return None
    every = [folder.read_arrays(name) for name in names]
    if any("refused" in one for one in every):
        return None
    after = np.stack(
        [rows_of_changes(one["plus"], one["minus"], float(one["size"])) for one in every], axis=1
    )
    contexts = ContextArrays._make(field[: len(every)] for field in before.contexts)
    name = evidence.test.hypotheses[0]
    hypothesis = next(one for one in evidence.hypotheses if one.name == name)
    return Rows(
        before=before.runs.values[-1, 0, : len(every)],
        after=after[0],
        target=rows(hypothesis, contexts),
        random=after[1:] if len(after) > 1 else None,
    )
