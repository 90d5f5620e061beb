"""Which heads are changed to see whether they cause the answers."""

from typing import NamedTuple

import numpy as np

from analysis.row_test import RowTest
from hatlens import stored_rows
from hatlens.config import StudyConfig
from hatlens.sets import MAIN
from hatlens.store import RunFolder
from probes.head_names import Head, parse_heads


class HeadChoice(NamedTuple):
    """The heads, and why them.

    named: the row test names a row of each of them. own: they were given with the settings.
    Neither: one head as description, that of the row which the hypothesis `alone` explains best,
    or of the row with the largest T. No heads where no row of a head sees the query.
    """

    heads: tuple[Head, ...]
    named: bool
    own: bool = False
    alone: bool = False

    @property
    def names(self) -> list[str]:
        return [str(head) for head in self.heads]

    @property
    def words(self) -> str:
        """Why these heads, as part of a sentence."""
        if self.own:
            return "given with the settings"
        if self.named:
            return "which the row test names"
        if self.alone:
            return (
                "the head with the row that the hypothesis alone explains best, as description: "
                "no row can be tested"
            )
        return (
            "the head with the row of largest T in the row test, as description: the row test "
            "names no head"
        )


def own_heads(config: StudyConfig, folder: RunFolder) -> tuple[Head, ...]:
    """The heads of the setting `heads`; refuses names that the model lacks, with near names."""
    return parse_heads(config.heads, stored_rows.head_grid(folder))


def chosen_heads(config: StudyConfig, folder: RunFolder, test: RowTest) -> HeadChoice:
    """Heads with a row that "contains" or "follows" the first hypothesis; layer sums are none.

    Without any, the head of the row with the largest T; where the design allows no test, of the
    row of which the hypothesis alone explains most.
    """
    own = own_heads(config, folder)
    if own:
        return HeadChoice(own, named=False, own=True)
    places = stored_rows.row_labels(folder).table()
    is_head = (places["head"] != stored_rows.LAYER_SUM).to_numpy()
    heads = [Head(int(r.layer), int(r.head)) for r in places.itertuples()]
    said = np.flatnonzero(test.contains(test.hypotheses[0]) & is_head)
    if len(said):
        return HeadChoice(tuple(dict.fromkeys(heads[row] for row in said)), named=True)
    alone = bool(test.not_assessable)
    merit = (test.alone.estimate if alone else test.t)[:, 0]
    merit = np.where(is_head & np.isfinite(merit), merit, -np.inf)
    best = int(merit.argmax())
    found = (heads[best],) if merit[best] > -np.inf else ()
    return HeadChoice(found, named=False, alone=alone)


def used_contexts(config: StudyConfig, folder: RunFolder) -> int:
    """How many of the main contexts are run again, from the first."""
    count: int = folder.manifest()["contexts"]["sets"][MAIN]
    return min(config.cause_contexts, count)
