"""Intervals and resampling; the resampled unit is always named by the caller."""

from typing import NamedTuple


class Interval(NamedTuple):
    """An estimate with its two-sided 95 % interval; NaN where it is undefined."""

    estimate: float
    low: float
    high: float
