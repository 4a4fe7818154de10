"""Data on stdout, talk on stderr.

Progress bars on stderr, only when it is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as RichProgress,
)
from rich.table import Table as Grid

from truerank.cli.options import Format
from truerank.core.errors import InvalidParameter
from truerank.core.progress import SILENT, Progress, ProgressTask
from truerank.core.table import Table, escape_latex

if TYPE_CHECKING:
    from truerank.core.result import Result

#: what --out may end in
SUFFIXES = {
    ".json": Format.json,
    ".csv": Format.csv,
    ".md": Format.markdown,
    ".tex": Format.latex,
    ".txt": Format.table,
}
_TARGETS = {
    "test-users": "the value of all test users",
    "population": "all users like these",
    "": "the mean",
}
_KINDS = {"exact": "exact values", "estimate": "estimates", "bound": "bounds"}


def check_out(path: Path | None) -> None:
    """Raise unless --out can be written in the format that its name asks for."""
    from truerank.core.checkpoint import check_output

    if path is None:
        return
    check_output(path, "--out")
    if path.suffix not in SUFFIXES:
        raise InvalidParameter(f"--out must end in {', '.join(SUFFIXES)}, got {path.name!r}.")


def say(text: str) -> None:
    """Talk to the person, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(text))


def emit(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def render_result(result: Result, style: Format) -> str:
    """Return the result in one of the formats."""
    if style is Format.json:
        return result.to_json()
    if style is Format.csv:
        fields = list(result.estimates[0].to_dict())
        entries = (*result.estimates, *result.bounds)
        return table_text(fields, [list(e.to_dict().values()) for e in entries], style)
    table = result.to_table()
    needed = sum(max(map(len, column)) + 2 for column in zip(table.columns, *table.rows, strict=True)) - 2
    if style is Format.table and needed > _console().width:
        # the interval below the value instead of beside it
        table = replace(
            table, rows=tuple(tuple(cell.replace(" [", "\n[", 1) for cell in row) for row in table.rows)
        )
    return render_table(table, style)


def say_intervals(result: Result) -> None:
    """Say what the intervals are for, how they were made, which values have none, and what else to know."""
    kinds: dict[tuple[str, float | None, str], list[str]] = {}
    for e in result.estimates:
        if e.low is not None:
            way = "" if e.kind == "exact" else f"{e.estimator}: "
            kinds.setdefault((_TARGETS[e.target], e.level, e.kind), []).append(way + e.method)
    for (target, level, kind), methods in kinds.items():
        say(f"{level:.0%} intervals of {_KINDS[kind]} for {target} ({'; '.join(dict.fromkeys(methods))}).")
    bare = sorted({e.estimator for e in result.estimates if e.kind == "estimate" and e.low is None})
    if bare:
        say(f"no interval for {', '.join(bare)}.")
    if result.bounds:
        say(f"bounds: every value that the sampled ranks allow, at {result.bounds[0].level:.0%} confidence.")
    for note in result.notes:
        say(note)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]], style: Format) -> str:
    """Return rows of anything as ``render_table`` does; nothing stands for None."""
    cells = tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows)
    return render_table(Table(tuple(columns), cells), style)


def render_table(table: Table, style: Format) -> str:
    """Return a table as text, CSV, Markdown or LaTeX; numbers are aligned right."""
    if style is Format.csv:
        return table.csv()
    if style is Format.markdown:
        return table.markdown()
    if style is Format.latex:
        return table.latex()
    return _grid(table)


def prose(text: str, style: Format) -> str:
    """Return a sentence that stands among tables."""
    return escape_latex(text) if style is Format.latex else text


def _grid(table: Table) -> str:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(table.columns):
        grid.add_column(escape(column), justify="right" if table.is_number(at) else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*map(escape, row))
    console = _console()
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _console() -> Console:
    """Return stdout as a terminal of its width, or as a file whose lines are never folded."""
    is_terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, width=None if is_terminal else 10_000)


class _Bar:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self.bars, self.task = bars, task

    def advance(self, steps: int = 1) -> None:
        self.bars.advance(self.task, steps)

    def note(self, text: str) -> None:
        self.bars.update(self.task, note=text)


class _Bars:
    """The progress protocol of core, drawn by rich."""

    def __init__(self, bars: RichProgress) -> None:
        self.bars = bars

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        return _Bar(self.bars, self.bars.add_task(label, total=total, note=""))

    def done(self, task: ProgressTask) -> None:
        if isinstance(task, _Bar):
            self.bars.remove_task(task.task)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show jobs while the block runs; silent when stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield SILENT
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with RichProgress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars)
