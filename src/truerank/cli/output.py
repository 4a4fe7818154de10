"""Data on stdout, talk on stderr, files whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerank.core.errors import InvalidParameter


class Format(StrEnum):
    """How a command prints its data."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def say(text: str) -> None:
    """Talk to the person, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(text))


def emit(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]], style: Format) -> str:
    """Return rows as a table, CSV or Markdown; numbers are aligned right in tables."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if style is Format.csv:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([list(columns), *cells])
        return buffer.getvalue()
    if style is Format.markdown:
        lines = [columns, ["---"] * len(columns), *cells]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return _rich_table(columns, cells)


def _rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        is_number = all(row[index][:1].isdigit() or row[index] in ("", "-") for row in cells)
        table.add_column(column, justify="right" if is_number and cells else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=200)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def check_writable(path: Path | None, what: str) -> None:
    """Raise before the work starts if the file could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidParameter(f"{what} must be a file, but {str(path)!r} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise InvalidParameter(f"{what} {str(path)!r} lies in a folder that does not exist. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameter(f"{what} {str(path)!r} lies in a folder that cannot be written to.")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path`` and put it in place only when it is complete."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
