"""What all commands have in common: help in panels, how much they say, and errors that name options.

The functions behind a command are public, so their errors name Python arguments; ``n_threads must be an
integer`` becomes ``--threads must be an integer``. Only what cannot be an ordinary word is replaced:
arguments that a message starts with (``precision must ...``), assignments (``seen='keep'``), names with an
underscore, and what a message says to leave out. Text in parentheses stays, so that parameters of plug-ins
(``mn(users=10)``) are not mistaken for options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from truerank.core.errors import InvalidParameter, TruerankError

#: Python argument -> parameter of a command, where the two differ.
PARAMETERS = {
    "budgets": "budget",
    "estimators": "estimator",
    "families": "metrics",
    "folder": "keep",
    "models": "model",
    "n_negatives": "negatives",
    "n_pool": "n_items",
    "n_test_users": "n_users",
    "n_threads": "threads",
    "tie_margin": "margin",
}


_ARGUMENTS = "truerank.arguments"
_running: ContextVar[str] = ContextVar("running", default="")
_given: ContextVar[frozenset[str]] = ContextVar("given", default=frozenset())  # names of parameters


def _talk(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only, no messages.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print how long each step takes.")
    ] = False,
) -> None:
    """Options that every command has."""


class HelpGroup(TyperGroup):
    """Group of commands with help in panels."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from truerank.cli.help import print_help

        print_help(self, ctx)


class OptionCommand(TyperCommand):
    """Command with help in panels and ``-q`` and ``-v``; errors name its options, and it knows its call."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        common = typer.Typer(add_completion=False)
        common.command()(_talk)
        built: Any = typer.main.get_command(common)
        self.params += [one for one in built.params if one.name in ("quiet", "verbose")]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the arguments as they were given."""
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from truerank.cli.help import print_help

        print_help(self, ctx)

    def get_usage(self, ctx: Any) -> str:
        """Return how the command is called."""
        from truerank.cli.help import usage

        return usage(self, ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error gets its message in the words of the command line."""
        from truerank.cli.interrupt import working
        from truerank.cli.output import talking

        before = ctx.obj or (False, False)
        quiet, verbose = (
            ctx.params.pop(name, False) or given
            for name, given in zip(("quiet", "verbose"), before, strict=True)
        )
        if quiet and verbose:
            raise InvalidParameter("give either --quiet or --verbose, not both.")
        token = _running.set(_as_called(ctx))
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        given_token = _given.set(
            frozenset(name for name, source in sources.items() if source and source.name != "DEFAULT")
        )
        try:
            with working(), talking(quiet=quiet, verbose=verbose):
                return super().invoke(ctx)
        except TruerankError as error:
            is_argument = isinstance(error, InvalidParameter)
            message = name_options(str(error), option_names(self.params), is_argument=is_argument)
            if message != str(error):
                error.args = (message,)
            raise
        finally:
            _running.reset(token)
            _given.reset(given_token)


def command_line() -> str:
    """Return the command that is running, to be pasted into a shell; nothing where none is running."""
    return _running.get()


def is_given(name: str) -> bool:
    """Whether the running command was given an option, rather than taking its default."""
    return name in _given.get()


def _as_called(ctx: Any) -> str:
    arguments, names = ctx.meta.get(_ARGUMENTS, []), list[str]()
    while ctx.parent is not None:  # the outermost one is truerank, by whatever name it was started
        names.insert(0, ctx.info_name)
        ctx = ctx.parent
    return shlex.join(["truerank", *names, *arguments])


def option_names(parameters: Iterable[Any]) -> dict[str, str]:
    """Return the option for each Python argument that a command can set."""
    options = {one.name: max(one.opts, key=len) for one in parameters if isinstance(one, TyperOption)}
    renamed = {argument: options[name] for argument, name in PARAMETERS.items() if name in options}
    return renamed | options


def name_options(message: str, options: Mapping[str, str], *, is_argument: bool = True) -> str:
    """Return a message with options where it names Python arguments.

    Parameters
    ----------
    message : one or more sentences
    options : the option for each Python argument
    is_argument : whether the message is about an argument, and not about data with a column ``n_items``

    Examples
    --------
    >>> options = {"n_threads": "--threads", "seen": "--seen", "bounds": "--bounds", "users": "--users"}
    >>> name_options("n_threads must be an integer >= 1, got 0.", options)
    '--threads must be an integer >= 1, got 0.'
    >>> name_options("user 'a' has no unseen item. Use seen='keep'.", options)
    "user 'a' has no unseen item. Use --seen keep."
    >>> name_options("shape belongs to the bounds. Set bounds=True, not bounds=False.", options)
    'shape belongs to the bounds. Set --bounds, not --no-bounds.'
    >>> name_options("mn(users=0): users must be an integer >= 1, got 0.", options)
    'mn(users=0): users must be an integer >= 1, got 0.'
    """
    if not options:
        return message
    name = _any_of(options)
    if is_argument:
        subject = re.compile(rf"(?:{name}(?:, | and | or ))*{name}(?= (?:must|is|are|needs?) )").match(
            message
        )
        if subject:
            named = re.sub(name, lambda match: options[match[0]], subject[0])
            message = named + message[subject.end() :]
    forms = [r"\([^()]*\)", rf"(?P<name>{name})=(?P<value>\{{[^{{}}]*\}}|'[^']*'|[\w@:/-]+(?:\.\w+)*)"]
    left_out = rf"(?<=[Ll]eave ){name}(?= out)"
    if is_argument:
        unusual = _any_of(argument for argument in options if "_" in argument)
        left_out += rf"|(?<=[Ll]eave out ){name}|{unusual}"
    forms.append(f"(?P<bare>{left_out})")

    def replace(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups["name"]:
            return _assign(options[groups["name"]], groups["value"])
        return options[groups["bare"]] if groups["bare"] else match[0]

    return re.sub("|".join(forms), replace, message)


def _any_of(names: Iterable[str]) -> str:
    """Return the pattern of names as whole words outside of quotes; without names, one that never matches."""
    return rf"(?<![\w'.-])(?:{'|'.join(names) or '(?!)'})(?![\w'])"


def _assign(option: str, value: str) -> str:
    """Return an option with its value as one writes them in a shell."""
    if value in ("True", "False"):
        return option if value == "True" else option.replace("--", "--no-", 1)
    if value.startswith("{"):
        pairs = [pair.partition(": ") for pair in value.strip("{}").split(", ")]
        return f"{option} {','.join(f'{_bare(key)}={_bare(column)}' for key, _, column in pairs)}"
    return f"{option} {_bare(value)}"


def _bare(value: str) -> str:
    """Return a value without quotes, unless a shell would take it apart."""
    return value if " " in value else value.strip("'")
