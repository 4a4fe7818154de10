"""The command ``truerank``."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from truerank.cli import (
    agreement,
    compare,
    data,
    estimate,
    evaluate,
    fit,
    listing,
    paper,
    plan,
    sample,
    study,
    subsample,
    trec,
)
from truerank.cli.output import say
from truerank.core.errors import DataWarning, TruerankError
from truerank.version import __version__

app = typer.Typer(
    name="truerank",
    help="What a recommender's top-K metrics really are: exact where affordable, honest where not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate")(evaluate.evaluate)
app.command("sample")(sample.sample)
app.command("estimate")(estimate.estimate)
app.command("compare")(compare.compare)
app.command("plan")(plan.plan)
app.command("fit")(fit.fit)
app.command("study")(study.study)
app.command("subsample")(subsample.subsample)
app.command("agreement")(agreement.agreement)
app.command("list")(listing.list_plugins)
app.command("trec")(trec.trec)
app.add_typer(data.app, name="data")
app.add_typer(paper.app, name="paper")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"truerank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take options that belong to no command."""


def run() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", DataWarning)
    try:
        app()
    except TruerankError as error:
        say(f"truerank: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("truerank: interrupted.")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, DataWarning):
        say(f"note: {message}")
