"""What the row test returns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.bootstrap import Intervals
from analysis.design import Floats, Texts

CONTAINS = "contains an S^-1 component"
FOLLOWS = "follows S^-1"
NOTHING = "none"


@dataclass(frozen=True)
class RowTest:
    """R rows against H hypotheses; arrays are (R, H) unless said, NaN where a row is not tested.

    hypotheses: H names. baseline_version: which M0* was used. contexts, folds, flips: counts.
    status: (R,), "tested", "blind" (does not see the query) or "outside" (not finite somewhere,
        as beyond a sliding window).
    t: mean over standard error of the held-out log ratio G over contexts.
    p_corrected: in (0, 1], sign flips of contexts, maximum over all rows and hypotheses.
    coefficient: (F, R, H), by the fold left out, of unit-sd column and unit-sd row.
    positive_in_folds: folds with a coefficient above 0; -1 nowhere, 0 where a row is not tested.
    unique_over_explained: what only the hypothesis explains over all that is explained, held out.
    explained: share of query-centred variance that M0* and the hypothesis explain, held out.
    alone: share of query-centred variance that the hypothesis alone explains, held out.
    says: what the rules conclude, one text for each.
    not_assessable: why no row may be judged on these contexts; empty where it may.
    preview: why this is a preview and no verdict; empty where it is none.
    """

    hypotheses: tuple[str, ...]
    baseline_version: int
    contexts: int
    folds: int
    flips: int
    status: Texts
    t: Floats
    p_corrected: Floats
    coefficient: Floats
    positive_in_folds: NDArray[np.int64]
    unique_over_explained: Intervals
    explained: Floats
    alone: Intervals
    share_of_reproducible: Intervals
    reproducible: Intervals
    inversion_index: Intervals
    says: Texts
    not_assessable: str
    preview: str

    @property
    def tested(self) -> int:
        """Rows that were tested."""
        return int((self.status == "tested").sum())

    @property
    def blind(self) -> int:
        """Rows that do not see the query."""
        return int((self.status == "blind").sum())

    @property
    def outside(self) -> int:
        """Rows that are not finite somewhere."""
        return int((self.status == "outside").sum())

    def contains(self, hypothesis: str = "ols") -> NDArray[np.bool_]:
        """(R,), whether the rules name the hypothesis in each row."""
        said = self.says[:, self.hypotheses.index(hypothesis)]
        return np.asarray(said != NOTHING)
