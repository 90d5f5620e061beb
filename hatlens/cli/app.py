"""The command line: one file a command."""

import sys

import typer

from hatlens.cli.analyse import analyse
from hatlens.cli.bank import bank
from hatlens.cli.border import run_app
from hatlens.cli.doctor import doctor
from hatlens.cli.export import export
from hatlens.cli.models import app as models
from hatlens.cli.probe import probe
from hatlens.cli.prompts import app as prompts
from hatlens.cli.reference import app as reference
from hatlens.cli.report import report
from hatlens.cli.similarity import similarity
from hatlens.cli.validate import app as validate

app = typer.Typer(
    name="hatlens",
    help="What a pretrained transformer does with the examples in its prompt.",
    epilog="--debug, anywhere on the line, shows the traceback of what went wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (probe, similarity, analyse, report, bank, export, doctor):
    app.command(command.__name__)(command)
for group, name in (
    (models, "models"),
    (prompts, "prompts"),
    (validate, "validate"),
    (reference, "reference"),
):
    app.add_typer(group, name=name)


def main() -> None:
    """The console script."""
    sys.exit(run_app(app, sys.argv[1:]))
