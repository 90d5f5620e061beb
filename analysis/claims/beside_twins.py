"""A measure matched and mismatched, beside the same of untrained twins, for claims and in words."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from analysis.inference import Interval
from analysis.number_text import interval_text
from analysis.similarity.resampling import Paired

NO_TWIN = "no untrained twin was run, which may be as alike (--twins)"


class BesideTwins(NamedTuple):
    """found: the model, at equal update norm. twins: by name, the model's difference minus that
    untrained twin's at that norm; undefined where it has none, which is not beaten."""

    found: Paired
    twins: Mapping[str, Interval]

    @property
    def defined(self) -> bool:
        """Whether matched can be told from mismatched at all."""
        return all(math.isfinite(one) for one in (*self.found.difference, self.found.p))

    @property
    def undefined(self) -> str:
        """Why matched cannot be told from mismatched: what makes a cosine or a tau undefined."""
        for value, name in zip(self.found[:2], ("matched", "mismatched"), strict=True):
            if not math.isfinite(value.estimate):
                return f"is undefined {name}: an update is zero, or all weights are tied"
        return "is defined matched and mismatched on too few of the same queries"

    @property
    def beats(self) -> bool:
        """Whether the model's difference exceeds every twin's."""
        return all(one.low > 0 for one in self.twins.values())

    @property
    def words(self) -> str:
        """Matched, mismatched, and by how much the twin is exceeded that is exceeded least."""
        matched, mismatched = (interval_text(one) for one in self.found[:2])
        words = f"{matched} matched, {mismatched} mismatched"
        if not self.twins:
            return words
        lows = {name: one.low for name, one in self.twins.items()}
        if undefined := [name for name, low in lows.items() if not math.isfinite(low)]:
            return f"{words}, no value of {undefined[0]} to exceed"
        nearest = min(lows, key=lambda name: lows[name])
        return f"{words}, beyond {nearest} by {interval_text(self.twins[nearest])}"
