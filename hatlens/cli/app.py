"""The command line: one file a command."""

import sys

import typer

from hatlens.cli import analyse, bank, models, probe, prompts, report, validate
from hatlens.cli.border import run_app

app = typer.Typer(
    name="hatlens",
    help="What a pretrained transformer does with the examples in its prompt.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("probe")(probe.probe)
app.command("analyse")(analyse.analyse)
app.command("report")(report.report)
app.command("bank")(bank.bank)
app.add_typer(models.app, name="models")
app.add_typer(prompts.app, name="prompts")
app.add_typer(validate.app, name="validate")


def main() -> None:
    """The console script."""
    sys.exit(run_app(app, sys.argv[1:]))
