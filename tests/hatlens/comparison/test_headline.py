"""The headline of a comparison on planted cells: few sets, and twins of another update norm."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from analysis.claims.attention_outputs import MEASURE
from analysis.similarity.verdict import MORE, NOT_BEYOND_TWINS, Judged, says
from hatlens.comparison.compare import corrected, judged, lines_of, one_line
from hatlens.comparison.judging import Judging
from hatlens.comparison.stored import Stored
from tests.analysis.claims.planted import resamples
from tests.hatlens.comparison.planted_cells import QUERIES, planted

OTHER = "other demonstrations"


def primary(judging: Judging) -> Judged:
    lines = [one for one in lines_of(judging.model, judging.resamples) if one.key == MEASURE]
    return judged(judging.stored, lines, corrected(lines), judging.resamples)[0]


def test_what_exceeds_a_twin_of_the_same_update_norm_is_more_alike(tmp_path: Path) -> None:
    assert says(primary(planted(tmp_path))) == MORE


def test_a_twin_of_another_update_norm_is_not_exceeded(tmp_path: Path) -> None:
    judging = planted(tmp_path)
    for cell in judging.stored[1].cells.values():
        cell["fit/ft-other/norm"] = np.array(0.02)  # type: ignore[index]
    found = primary(judging)
    assert np.isnan(found.beyond[0]).all()
    assert says(found) == NOT_BEYOND_TWINS


class Values(Stored):
    """Numbers by condition, without cells."""

    def __init__(self, by_condition: dict[str, Any]) -> None:
        self.by_condition = by_condition

    def values(self, key: tuple[str, str, str]) -> Any:
        return self.by_condition[key[1]]


def test_sets_that_differ_are_said_to_be_more_alike_no_more_often_than_5_percent() -> None:
    """Five sets differ by chance, queries hardly: p of .05 in at most .05 of 300, within 2.5 sd;
    by resampling alone it is .1."""
    rng, found = np.random.default_rng(0), []
    for seed in range(300):
        change = rng.normal(0, 0.1, (5, 1, 1)) + rng.normal(0, 0.1, (5, QUERIES, 1))
        stored = Values({"matched": change, OTHER: np.zeros_like(change)})
        drawn = resamples(queries=QUERIES, seed=seed, count=200)
        found.append(one_line(stored, "answer", MEASURE, ("matched", OTHER), drawn).found)
    most = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 300)
    assert np.mean([one.p <= 0.05 for one in found]) <= most
    assert np.mean([one.difference.low <= 0 <= one.difference.high for one in found]) >= 1 - most
