"""The command ``truerank``: a group whose commands are imported when they are called.

``--version``, ``--help`` and the completion of command names need none of them, and no numerical library.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from truerank.cli.interrupt import answer, is_dropped, say_interrupted
from truerank.core.errors import DataWarning, Interrupted, TruerankError, excerpt
from truerank.version import __version__

#: Command -> the first line of its help.
COMMANDS = {
    "evaluate": "Rank items for every test user and print metrics, exact or estimated from sampled items.",
    "sample": "Rank targets against sampled negatives and write the table that truerank estimate reads.",
    "estimate": "Estimate the metrics of exact evaluation from a table of sampled ranks of any framework.",
    "compare": "Compare models, from files of ranks or on a data set: which is better, or why it is open.",
    "plan": "Recommend how to reach a wanted half-width: what to do, what it costs, what it gives.",
    "fit": "Fit a model to the train part and write it to a file.",
    "study": "Measure the errors of estimators: rank all items once, and sampled items many times.",
    "subsample": "Write a fraction of the events, with their original ids, and print what has been lost.",
    "agreement": "Fit models to all events and to sub-samples; print which of these keep their order.",
    "list": "List the plug-ins of one kind, or describe one of them with its parameters and source.",
    "trec": "Compute metrics from a TREC run and its qrels.",
    "data": "Public data sets: list, describe or fetch them.",
    "paper": "Reproduce tables and figures of the papers.",
}
#: Panel of the help -> commands.
GROUPS = {
    "Evaluate": ("evaluate", "compare", "plan", "fit", "trec"),
    "Sampled ranks": ("sample", "estimate", "study"),
    "Smaller data": ("subsample", "agreement"),
    "Look up": ("list", "data", "paper"),
}
#: Where a command is defined below ``truerank.cli``, unless in the function and module of its name.
DEFINED = {"list": "plugins:list_plugins", "data": "data:app", "paper": "paper:app"}


def load_command(name: str) -> Any:
    """Import a command and return it as typer builds it."""
    from truerank.cli.messages import OptionCommand

    module, _, attribute = DEFINED.get(name, f"{name}:{name}").partition(":")
    defined = getattr(import_module(f"truerank.cli.{module}"), attribute)
    if not isinstance(defined, typer.Typer):
        function, defined = defined, typer.Typer(add_completion=False)
        defined.command(name, cls=OptionCommand)(function)
    command = typer.main.get_command(defined)
    command.name = name
    return command


class LazyGroup(TyperGroup):
    """Group that knows the names and summaries of its commands, and loads the one that is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, commands in panels."""
        from truerank.cli.help import print_help

        print_help(self, ctx, GROUPS)

    def invoke(self, ctx: Any) -> Any:
        """Run the called command; Ctrl-C ends it with one sentence, where typer would say nothing."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(say_interrupted()) from None
        except Exception:
            if is_dropped():  # what a library has made of the interrupt
                raise typer.Exit(say_interrupted()) from None
            raise

    def main(self, *arguments: Any, **options: Any) -> None:
        """Run the command line; a call that cannot be parsed ends with one sentence and exit code 2."""
        try:
            code = super().main(*arguments, **{**options, "standalone_mode": False})
        except Exception as error:
            sentence = _usage_sentence(error)
            if sentence is None:
                raise
            if sentence:  # without any argument, the help has said enough
                _say(f"truerank: {sentence}")
            sys.exit(2)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the command itself and its arguments."""
        name, command, arguments = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), arguments


app = typer.Typer(
    name="truerank",
    cls=LazyGroup,
    help="What a recommender's top-K metrics really are: exact where affordable, honest where not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)  # replaced by `load_command` when it is called


def whole_command() -> TyperGroup:
    """Return the group with all commands loaded, as pages that describe them need it."""
    group = cast("TyperGroup", typer.main.get_command(app))
    group.commands = {name: load_command(name) for name in COMMANDS}
    return group


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"truerank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only, no messages.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print how long each step takes.")
    ] = False,
) -> None:
    """Take options that belong to no command."""
    ctx.obj = (quiet, verbose)


def run() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal has no letter for is shown in another way
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", DataWarning)
    try:
        app(prog_name="truerank")
    except SystemExit as leaving:
        if is_dropped() and not leaving.code:
            sys.exit(say_interrupted())
        raise
    except TruerankError as error:
        _say(f"truerank: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(say_interrupted())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # of a file that no reader or writer has a sentence for
        reason = error.strerror or type(error).__name__
        if error.filename is None:  # of a stream
            _say(f"truerank: the output must be written, but that failed ({reason}). Make room for it.")
        else:
            _say(f"truerank: '{excerpt(str(error.filename))}' cannot be used: {reason}. Check the path.")
        sys.exit(2)


def _usage_sentence(error: Exception) -> str | None:
    """Return what an error of the parser says, and whose help to look at; None for any other error."""
    tell, context = getattr(error, "format_message", None), getattr(error, "ctx", None)
    if tell is None:
        return None
    said = re.sub(r"\S{200,}", lambda word: excerpt(word[0]), " ".join(tell().split())).rstrip(".")
    return said and f"{said}. See {context.command_path if context else 'truerank'} --help."


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, Interrupted):
        answer()
    if issubclass(category, DataWarning):
        _say(f"note: {message}")


def _say(text: str) -> None:
    from truerank.cli.output import say

    with suppress(OSError):  # the messages may go where the disk is full
        say(text)
