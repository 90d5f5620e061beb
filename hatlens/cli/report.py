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
    from hatlens.comparison.study import analyse_comparison, is_comparison
    from hatlens.study import write_report

    if is_comparison(run):
        analyse_comparison(run)
        print(f"report: {run / 'report.html'}")
        return
    print(f"report: {write_report(run, head=head)}")
