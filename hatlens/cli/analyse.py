"""``hatlens analyse RUN``: conclude again from stored rows, without the model."""

from pathlib import Path
from typing import Annotated

import typer


def analyse(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Redo the analysis and the report of RUN from its stored rows."""
    from hatlens.cli import probe, similarity
    from hatlens.comparison.study import analyse_comparison, is_comparison
    from hatlens.progress import progress
    from hatlens.study import analyse_run

    if is_comparison(run):
        similarity.show(analyse_comparison(run), as_json=as_json)
        return
    with progress() as callback:
        result = analyse_run(run, callback)
    probe.show(result, as_json=as_json)
