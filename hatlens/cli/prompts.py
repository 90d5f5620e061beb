"""``hatlens prompts show``: one prompt with its spans and token borders."""

import sys
from typing import Annotated

import typer

from hatlens.cli import settings as s

app = typer.Typer(help="Look at what a model is fed.", no_args_is_help=True)


@app.callback()
def prompts() -> None:
    """Look at what a model is fed."""


@app.command()
def show(
    model: Annotated[
        str | None, typer.Argument(help="mark the token borders of this model's tokenizer")
    ] = None,
    context: Annotated[int, typer.Option(help="which context, from 1")] = 1,
    query: Annotated[int, typer.Option(help="which query, from 1")] = 1,
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
    seed: s.Seed = None,
    revision: s.Revision = None,
    trust_remote_code: s.Trusted = False,
    config: s.Config = None,
) -> None:
    """Print one prompt, its numbers and separators marked; with MODEL also its tokens."""
    values = s.given(locals())
    from hatlens.config import build_config
    from hatlens.sets import MAIN, draw_sets
    from prompts.layouts import layout_named
    from prompts.show import show_prompt

    settings = build_config({**values, "pairs": 0})
    tokenizer = None
    if model is not None:
        from probes.models import load_model

        tokenizer = load_model(
            model, revision=revision, trust_remote_code=trust_remote_code
        ).tokenizer
    drawn = draw_sets(settings).sets[MAIN]
    for warning in drawn.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    chosen = layout_named(settings.layout)
    print(
        show_prompt(
            drawn, context - 1, query - 1, layout=chosen, tokenizer=tokenizer, bos=settings.bos
        ),
        end="",
    )
