"""What a study measures beside its rows: one file a stage, one line in the table."""

from hatlens.stages.behavioural_row import BEHAVIOURAL_ROW
from hatlens.stages.cause import CAUSE
from hatlens.stages.contributions import CONTRIBUTIONS
from hatlens.stages.depth import DEPTH
from hatlens.stages.reading import READING
from hatlens.stages.stage import Bench, Evidence, Found, Stage

STAGES: tuple[Stage, ...] = (READING, BEHAVIOURAL_ROW, DEPTH, CONTRIBUTIONS, CAUSE)
"""Every stage, in the order in which it is run and reported."""

__all__ = ["STAGES", "Bench", "Evidence", "Found", "Stage"]
