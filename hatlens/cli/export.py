"""``hatlens export RUN``: stored rows and patterns as files for other tools, without the model."""

import json
from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="a run folder (of one study)")],
    format: Annotated[str, typer.Option("--format", help="parquet, numpy, bertviz or circuitsvis")],
    out: Annotated[Path, typer.Option(help="the file to write")],
    heads: Annotated[
        list[str] | None,
        typer.Option(help="L3H5, '(3, 5)', L3, or a transformer-lens hook; repeat it; default all"),
    ] = None,
    variant: Annotated[str, typer.Option(help="trained, or a twin's kind")] = "trained",
    context: Annotated[int | None, typer.Option(help="of a pattern: context, from 1")] = None,
    query: Annotated[int | None, typer.Option(help="of a pattern: query, from 1")] = None,
    part: Annotated[
        str | None, typer.Option(help="of a pattern: tokens averaged: x, y, separator, all")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace the file if it exists")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Write stored rows of chosen heads to Parquet or NumPy, or as BertViz or CircuitsVis data."""
    from hatlens.export import export_rows

    file = export_rows(
        run,
        out,
        format=format,
        heads=heads or (),
        variant=variant,
        context=context,
        query=query,
        part=part,
        force=force,
    )
    said = {"file": str(file), "format": format, "bytes": file.stat().st_size}
    print(json.dumps(said, ensure_ascii=False) if as_json else f"{format}: {file}")
