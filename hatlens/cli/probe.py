"""``hatlens probe MODEL``: run a study (or a preset of studies) and conclude."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hatlens.cli import settings as s


def probe(
    model: Annotated[
        str | None,
        typer.Argument(help="a registered name, a Hugging Face id, a folder or a GGUF file"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="run folder; the same command again resumes there")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="several studies in one: main")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="16 contexts, no verdict")] = False,
    features: s.Features = None,
    examples: s.Examples = None,
    contexts: s.Contexts = None,
    queries: s.Queries = None,
    condition: s.Condition = None,
    noise: s.Noise = None,
    function: s.Function = None,
    x_scale: s.XScale = None,
    w_scale: s.WScale = None,
    query_push: s.QueryPush = None,
    layout: s.Layout = None,
    codec: s.CodecName = None,
    bos: s.Bos = None,
    data: s.Data = None,
    target: s.Target = None,
    columns: s.Columns = None,
    missing: s.Missing = None,
    date_format: s.DateFormat = None,
    allow_dependent: s.Dependent = False,
    names: s.Names = None,
    twins: s.Twins = None,
    twins_in_full: s.TwinsInFull = False,
    controls: s.Controls = False,
    reading: s.Reading = None,
    mass: s.Mass = None,
    reading_contexts: s.ReadingContexts = None,
    cause: s.Cause = False,
    cause_contexts: s.CauseContexts = None,
    random_sets: s.RandomSets = None,
    heads: s.Heads = None,
    behavioural_row: s.BehaviouralRow = None,
    behavioural_queries: s.BehaviouralQueries = None,
    along: s.Along = False,
    hypotheses: s.Hypotheses = None,
    pairs: s.Pairs = None,
    flips: s.Flips = None,
    seed: s.Seed = None,
    revision: s.Revision = None,
    dtype: s.Dtype = None,
    device: s.Device = None,
    memory: s.Memory = None,
    trust_remote_code: s.Trusted = False,
    quantize: s.Quantize = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Feed regression prompts to MODEL and compare its attention with least squares."""
    values = s.given(locals())
    from hatlens.config import build_config
    from hatlens.presets import PREVIEW, preset_studies
    from hatlens.progress import progress
    from hatlens.study import default_folder, run_studies

    if preview:
        values = {**PREVIEW, **values}
    studies = preset_studies(preset, values) if preset else [build_config(values)]
    folder = out or default_folder(studies, preset)
    with progress() as report:
        result = run_studies(studies, folder, report, preset=preset)
    show(result, as_json=as_json)


def show(result: dict[str, Any], *, as_json: bool) -> None:
    """Print a result: JSON, or the verdicts and where the report is."""
    from hatlens.store import json_text

    if as_json:
        print(json_text(result))
        return
    for study in result.get("studies", [result]):
        print(study["verdict"]["sentence"])
    print(f"report: {Path(result['run']) / 'report.html'}")
