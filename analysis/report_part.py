"""A part of a study's page that is there only where it was measured."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.picture import Picture
from analysis.report_tables import Table

Result = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]


class Part(NamedTuple):
    """One part of the page: what was found in a sentence, then pictures, then tables.

    name: its anchor; link: its name in the page's contents. answers: the data of the picture in
    which a reader picks an answer; empty without one.
    """

    name: str
    link: str
    heading: str
    sentences: Sequence[str]
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    answers: str = ""
