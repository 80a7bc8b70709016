"""The command ``stalegrad``: one file for each group of commands, and ``screens.py`` with the tables that they print.

Arguments, words and exit statuses only: what a command does lives in the package, and nothing imports this folder.
"""

import os
import sys
from typing import Annotated

import typer

import stalegrad
from stalegrad._internal.errors import StalegradError
from stalegrad._internal.text import printable
from stalegrad.cli.common import wrapped
from stalegrad.cli.demo import demo
from stalegrad.cli.plan import plan
from stalegrad.cli.reproduce import figures
from stalegrad.cli.runs import compare, list_runs, plot, remove, report, resume, run, show
from stalegrad.cli.simulate import simulate
from stalegrad.cli.watch import timeline, watch

app = typer.Typer(
    name="stalegrad",
    help="Asynchronous stochastic-gradient MCMC with stale gradients.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
STATUS = (
    "Exit status: 0 when all is done, 1 when it failed, 2 when the command was not understood, 130 when interrupted."
)

app.command(rich_help_panel="Runs")(plan)
app.command(rich_help_panel="Runs", epilog=STATUS)(run)
app.command(rich_help_panel="Runs", epilog=STATUS)(resume)
app.command(rich_help_panel="Runs")(show)
app.command("list", rich_help_panel="Runs")(list_runs)
app.command("rm", rich_help_panel="Runs")(remove)
app.command(rich_help_panel="Runs")(plot)
app.command(rich_help_panel="Runs")(report)
app.command(rich_help_panel="Runs")(compare)
app.command(rich_help_panel="Runs")(timeline)
app.command(rich_help_panel="Runs")(watch)
app.command(rich_help_panel="Experiments")(demo)
app.command(rich_help_panel="Experiments")(simulate)
app.add_typer(figures, name="reproduce", rich_help_panel="Experiments")


def main() -> None:
    """Entry point: errors that stalegrad raises on purpose become one clear line and exit status 1."""
    try:
        app()
    except (StalegradError, OSError) as error:  # not through rich: brackets in a message or a path are no markup
        text = wrapped(printable(str(error)), len("error: "))
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"  # click knows of neither
        typer.echo(f"{'error:' if plain else typer.style('error:', fg='red', bold=True)} {text}", err=True)
        sys.exit(1)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"stalegrad {stalegrad.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
