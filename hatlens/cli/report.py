"""``hatlens report RUN``: write the report page again, without the model."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    head: Annotated[
        str | None,
        typer.Option("--head", "--heads", help="the head that the row picture opens with, as L3H5"),
    ] = None,
) -> None:
    """Write RUN/report.html from the stored results."""
    from hatlens.study import write_report

    print(f"report: {write_report(run, head=head)}")
