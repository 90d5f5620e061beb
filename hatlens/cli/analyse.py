"""``hatlens analyse RUN``: conclude again from stored rows, without the model."""

from pathlib import Path
from typing import Annotated

import typer


def analyse(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Redo the analysis and the report of RUN from its stored rows."""
    from hatlens.cli.probe import show
    from hatlens.progress import progress
    from hatlens.study import analyse_run

    with progress() as callback:
        result = analyse_run(run, callback)
    show(result, as_json=as_json)
