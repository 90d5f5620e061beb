"""What a stage of a study is: which cells it runs on the model, and what it concludes from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
from numpy.typing import NDArray

from analysis.bank import Hypothesis
from analysis.design import ContextArrays
from analysis.row_test import RowTest
from hatlens.cells import Tokens
from hatlens.config import StudyConfig
from hatlens.progress import Report, silent
from hatlens.sets import MAIN, StoredSet, StudySets
from hatlens.store import RunFolder
from probes.behavioural_row import Asking
from probes.models import LoadedModel
from prompts.layouts import Layout, layout_named
from prompts.number_grammar import NumberGrammar, grammar_of_contexts

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Bench:
    """What a stage needs to run a cell on the trained model."""

    config: StudyConfig
    study: StudySets
    loaded: LoadedModel
    tokens: Tokens
    folder: RunFolder
    held: dict[str, Any] = field(default_factory=dict)
    report: Report = silent

    @cached_property
    def layout(self) -> Layout:
        return layout_named(self.config.layout)

    def grammar(self, name: str = MAIN) -> NumberGrammar:
        """Which tokens spell the numbers of a set of contexts."""
        key = f"grammar {name}"
        if key not in self.held:
            self.held[key] = grammar_of_contexts(
                self.study.sets[name], self.loaded.tokenizer, layout=self.layout
            )
        found: NumberGrammar = self.held[key]
        return found

    def asking(self, name: str = MAIN) -> Asking:
        """How this study prints the numbers of a set of contexts and reads the answers."""
        config = self.config
        return Asking(
            layout=self.layout, bos=config.bos, grammar=self.grammar(name), mass=config.mass
        )


@dataclass(frozen=True)
class Evidence:
    """What a stage concludes from: the stored cells, and what was concluded before.

    `test` is the row test of the trained model; `hypotheses` the bank with what was added to it.
    """

    config: StudyConfig
    folder: RunFolder
    main: StoredSet
    arrays: ContextArrays
    test: RowTest
    hypotheses: Sequence[Hypothesis]

    @property
    def blocks(self) -> list[int]:
        """The resampled unit of each context."""
        blocks: list[int] = self.folder.manifest()["contexts"]["blocks"]
        return blocks

    @property
    def unit(self) -> str:
        """What is resampled."""
        return str(self.folder.manifest()["contexts"]["unit"])


class Found(NamedTuple):
    """What a stage found: its entry of the result, its tables by name, and one plain sentence."""

    result: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    sentence: str


def nothing(config: StudyConfig, folder: RunFolder) -> Sequence[str]:
    """A stage without cells that wait for a conclusion."""
    return ()


@dataclass(frozen=True)
class Stage:
    """One stage. `name` is its key in the result; `progress` is what progress bars call it.

    `cells`: the names of its cells, none where it was not asked for. `run`: the arrays of one cell.
    `conclude`: what the stored cells say. `after`: the names of cells that depend on what was
    concluded of the others; they are run after it, and then it is concluded again.
    """

    name: str
    progress: str
    cells: Callable[[StudyConfig, StudySets], Sequence[str]]
    run: Callable[[Bench, str], Arrays]
    conclude: Callable[[Evidence], Found | None]
    after: Callable[[StudyConfig, RunFolder], Sequence[str]] = nothing


def run_stage(stage: Stage, bench: Bench, names: Sequence[str]) -> None:
    """Run and store those of a stage's cells that are not yet there."""
    report = bench.report
    done = sum(bench.folder.has(name) for name in names)
    if done == len(names):
        return
    report(stage.progress, done, len(names))
    for name in names:
        if bench.folder.has(name):
            continue
        bench.folder.write_arrays(name, stage.run(bench, name))
        done += 1
        report(stage.progress, done, len(names))


def index_of(name: str) -> int:
    """The number at the end of a cell's name."""
    return int(name.rpartition("/")[2])
