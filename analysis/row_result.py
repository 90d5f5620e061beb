"""What the row test returns, and the words of its rules."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.bootstrap import Intervals
from analysis.design import Floats, Texts
from analysis.families import FamilyTest
from analysis.inference import Interval
from analysis.pairs import PairsTest
from analysis.spike import DesignGate

CONTAINS = "contains an S^-1 component"
FOLLOWS = "follows S^-1"
NOTHING = "none"
NOT_ASSESSABLE = "not assessable"
CANNOT_IDENTIFY = "design cannot identify"
EQUIVALENT = (0.8, 1.25)


@dataclass(frozen=True)
class Chosen:
    """The best row of a hypothesis, its effects estimated on contexts that did not choose it.

    row: index of the row with the largest t over all contexts; rows_of_halves: the rows that the
    two halves of the contexts chose, each measured on the other half; -1 where no row is tested.
    says: what the rules conclude, with the inversion index of these estimates.
    """

    hypothesis: str
    row: int
    rows_of_halves: tuple[int, int]
    unique_over_explained: Interval
    unique_of_variance: Interval
    share_of_reproducible: Interval
    inversion_index: Interval
    says: str


@dataclass(frozen=True)
class RowTest:
    """R rows against H hypotheses; arrays are (R, H) unless said, NaN where a row is not tested.

    hypotheses, hypothesis_families: H names each. baseline_version: which M0* was used.
    contexts, queries, examples, features, folds, flips: counts. units: what folds, flips and
        resamples are made of: contexts, or blocks of contexts that share rows.
    status: (R,), "tested", "blind" (does not see the query) or "outside" (not finite somewhere,
        as beyond a sliding window).
    t: mean over standard error of the held-out log ratio G over units.
    p_corrected: in (0, 1], sign flips of contexts, maximum over all rows and hypotheses.
    coefficient: (F, R, H), by the fold left out, of unit-sd column and unit-sd row.
    positive_in_folds: folds with a coefficient above 0; 0 where a row is not tested.
    unique_over_explained: what only the hypothesis explains over all that is explained, held out;
        NaN where nothing is explained (the data or a resample).
    unique_of_variance: the same over the row's query-centred variance, always defined; the unit of
        design.mde.
    explained: share of query-centred variance that M0* and the hypothesis explain, held out.
    alone: share of query-centred variance that the hypothesis alone explains, held out.
    lead: lower bound of the lead of the hypothesis alone over the nearest rival family, a share of
        query-centred variance; nearest_rival: that family. NaN and "" outside the S^-1 family.
    share_of_reproducible: what only the hypothesis explains of the covariance of two runs with
        fresh y, noise and order. reproducible: (R,), that covariance over the variance.
    inversion_index: (R,). pairs: the re-paired twin contexts, None where they were not run.
    families: each family against all others. design: what these contexts allow.
    says: what the rules conclude. chosen: the best row of each hypothesis.
    not_assessable: why no row may be judged on these contexts; empty where it may.
    preview: why this is a preview and no verdict; empty where it is none.
    """

    hypotheses: tuple[str, ...]
    hypothesis_families: tuple[str, ...]
    baseline_version: int
    contexts: int
    units: int
    queries: int
    examples: int
    features: int
    folds: int
    flips: int
    status: Texts
    t: Floats
    p_corrected: Floats
    coefficient: Floats
    positive_in_folds: NDArray[np.int64]
    unique_over_explained: Intervals
    unique_of_variance: Intervals
    explained: Floats
    alone: Intervals
    lead: Floats
    nearest_rival: Texts
    share_of_reproducible: Intervals
    reproducible: Intervals
    inversion_index: Intervals
    pairs: PairsTest | None
    families: FamilyTest
    design: DesignGate
    says: Texts
    chosen: tuple[Chosen, ...]
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
        """(R,), whether the rules name the hypothesis in each row ("contains" or "follows")."""
        said = self.says[:, self.hypotheses.index(hypothesis)]
        return np.asarray(np.char.startswith(said, "contains") | np.char.startswith(said, FOLLOWS))


def index_words(index: Interval) -> str:
    """What the inversion index says inside the S^-1 family.

    "OLS" where the interval lies inside [.8, 1.25], "partly inverted" where it lies below .8,
    otherwise "not separable".
    """
    if EQUIVALENT[0] <= index.low and index.high <= EQUIVALENT[1]:
        return "OLS"
    if index.high < EQUIVALENT[0]:
        return f"partly inverted (index {index.estimate:.2f})"
    return "not separable"


def verdict_on_row(
    *, name: str, family: str, contains: bool, follows: bool, identifies: bool, index: Interval
) -> str:
    """The text of the rules for one row and hypothesis."""
    if family != "inverse":
        return f"contains {name}" if contains else NOTHING
    if not identifies:
        return CANNOT_IDENTIFY
    if not contains:
        return NOTHING
    return f"{FOLLOWS} ({index_words(index)})" if follows else CONTAINS
