"""``hatlens report RUN``: write the report page again, without the model."""

from pathlib import Path
from typing import Annotated

import typer


def report(run: Annotated[Path, typer.Argument(help="a run folder")]) -> None:
    """Write RUN/report.html from the stored results."""
    from hatlens.study import write_report

    print(f"report: {write_report(run)}")
