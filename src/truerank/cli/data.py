"""``truerank data``: public data sets by name."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.completion import dataset_names
from truerank.cli.messages import HelpGroup, OptionCommand
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, Parts, check_file, emit, say, show, shown_progress, table_of

app = typer.Typer(
    cls=HelpGroup,
    help="Public data sets: list, describe or fetch them.",
    no_args_is_help=True,
    add_completion=False,
)
_Name = Annotated[
    str, typer.Argument(help="Name in the catalogue, such as ml-1m.", autocompletion=dataset_names)
]


@app.command("list", cls=OptionCommand)
def list_data(format: opt.OutputFormat = Format.table, out: opt.Out = None) -> None:
    """List the data sets of the catalogue and whether they are on this machine.

    A table in the terminal has no descriptions; data describe prints one, and the other formats have them.
    """
    from truerank.data.catalogue import find_local, list_datasets

    check_file(out, "--out", SUFFIXES)
    columns = ("name", "users", "items", "events", "here", "description")
    rows = []
    for entry in list_datasets():
        state = "yes" if find_local(entry.name) else "fetch" if entry.is_automatic else "by hand"
        rows.append((entry.name, entry.n_users, entry.n_items, entry.n_events, state, entry.description))

    def parts(style: Format) -> Parts:
        if style is Format.json:
            return [json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2)]
        if style is Format.table:
            return [table_of(columns[:-1], ([_grouped(cell) for cell in row[:-1]] for row in rows))]
        return [table_of(columns, rows)]

    show(parts, format, out)
    say("More about one of them: truerank data describe NAME")


@app.command("describe", cls=OptionCommand)
def describe_data(name: _Name, format: opt.OutputFormat = Format.table, out: opt.Out = None) -> None:
    """Print where a data set comes from, its licence and its size."""
    from truerank.data.catalogue import describe, find_local

    check_file(out, "--out", SUFFIXES)
    facts: dict[str, str | int | None] = describe(name).facts()
    facts["here"] = str(find_local(name) or "")
    table = table_of(("field", "value"), [(key, value) for key, value in facts.items() if value])
    show(lambda style: [json.dumps(facts, indent=2) if style is Format.json else table], format, out)


@app.command("fetch", cls=OptionCommand)
def fetch_data(name: _Name) -> None:
    """Download a data set unless it is on this machine, and print its path."""
    from truerank.data.catalogue import describe, fetch

    entry = describe(name)
    say(f"{name}: {entry.licence}.")
    with shown_progress() as progress:
        paths = fetch(name, progress=progress, tell=say)
    for path in paths:
        emit(str(path))


def _grouped(cell: object) -> object:
    return f"{cell:,}" if isinstance(cell, int) else cell
