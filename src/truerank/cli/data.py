"""``truerank data``: public data sets by name."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.completion import dataset_names
from truerank.cli.options import Format
from truerank.cli.output import emit, say, shown_progress, table_text

app = typer.Typer(
    help="Public data sets: list, describe or fetch them.", no_args_is_help=True, add_completion=False
)
_Name = Annotated[
    str, typer.Argument(help="Name in the catalogue, such as ml-1m.", autocompletion=dataset_names)
]


@app.command("list")
def list_data(format: opt.OutputFormat = Format.table) -> None:
    """List the data sets of the catalogue and whether they are on this machine."""
    from truerank.data.catalogue import find_local, list_datasets

    columns = ("name", "users", "items", "events", "here", "description")
    rows = []
    for entry in list_datasets():
        state = "yes" if find_local(entry.name) else "fetch" if entry.is_automatic else "by hand"
        rows.append((entry.name, entry.n_users, entry.n_items, entry.n_events, state, entry.description))
    if format is Format.json:
        emit(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2))
        return
    shown = [[_grouped(cell) if format is Format.table else cell for cell in row] for row in rows]
    emit(table_text(columns, shown, format))


@app.command("describe")
def describe_data(name: _Name, format: opt.OutputFormat = Format.table) -> None:
    """Print where a data set comes from, its licence and its size."""
    from truerank.data.catalogue import describe, find_local

    facts: dict[str, str | int | None] = describe(name).facts()
    facts["here"] = str(find_local(name) or "")
    if format is Format.json:
        emit(json.dumps(facts, indent=2))
        return
    emit(table_text(("field", "value"), [(key, value) for key, value in facts.items() if value], format))


@app.command("fetch")
def fetch_data(name: _Name) -> None:
    """Download a data set unless it is on this machine, and print its path."""
    from truerank.data.catalogue import describe, fetch

    entry = describe(name)
    say(f"{name}: {entry.licence}.")
    with shown_progress() as progress:
        paths = fetch(name, progress=progress)
    for path in paths:
        emit(str(path))


def _grouped(cell: object) -> object:
    return f"{cell:,}" if isinstance(cell, int) else cell
