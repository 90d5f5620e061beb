"""What a study measures beside its rows: one file a stage, one line in the table."""

from hatlens.stages.reading import READING
from hatlens.stages.stage import Bench, Evidence, Found, Stage

STAGES: tuple[Stage, ...] = (READING,)
"""Every stage, in the order in which it is run and reported."""

__all__ = ["STAGES", "Bench", "Evidence", "Found", "Stage"]
