"""What a command writes: data to stdout and files, messages and progress bars to stderr.

A pipe sees only data. Progress bars appear only when stderr is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from truerank.cli.messages import command_line
from truerank.cli.options import Format
from truerank.core.errors import InvalidParameter
from truerank.core.progress import SILENT, Progress
from truerank.core.table import Table, escape_latex, percent

if TYPE_CHECKING:
    from truerank.core.chart import Document
    from truerank.core.ranks import SampledRanks
    from truerank.core.result import Result

#: what --out may end in
SUFFIXES = {
    ".json": Format.json,
    ".csv": Format.csv,
    ".md": Format.markdown,
    ".tex": Format.latex,
    ".txt": Format.table,
}
#: what an interval is for
_TARGETS = {"test-users": "all test users", "population": "the user population", "": "the mean"}
_METHODS = {"bca": "BCa bootstrap", "normal": "Student-t"}


def check_file(path: Path | None, option: str, suffixes: Collection[str] = ()) -> None:
    """Raise unless the file that an option names can be written; None is no file.

    Parameters
    ----------
    path : what was given
    option : such as ``--out``
    suffixes : what the name may end in; none: in anything
    """
    from truerank.core.checkpoint import check_output

    if path is None:
        return
    check_output(path, option)
    if suffixes and path.suffix not in suffixes:
        raise InvalidParameter(f"{option} must end in {_either(suffixes)}, got {path.name!r}.")


def _either(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def say(text: str) -> None:
    """Write a message to stderr."""
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


def write_text(path: Path | None, text: str) -> None:
    """Write what ``--out`` asks for, if anything, all or nothing."""
    from truerank.core.checkpoint import replace_text

    if path is not None:
        replace_text(path, text if text.endswith("\n") else text + "\n", "--out")
        say(f"wrote {path}")


def write_charts(
    result: Result, path: Path, ranks: Mapping[str, SampledRanks] | None = None, *, bounds: bool
) -> None:
    """Write the report of a result with its charts; they need the sampled ranks where the result has none."""
    from truerank.report.charts.result import result_charts
    from truerank.report.facts import COMMAND_LINE
    from truerank.report.page import write_report

    with shown_progress() as progress:
        charts = result_charts(result, ranks, bounds=bounds, progress=progress)
    known = {**result.provenance, COMMAND_LINE: command_line()}
    write_report(replace(result, charts=charts, provenance=known), path)
    say(f"wrote {path}")


def write_page(document: Document, path: Path) -> None:
    """Write the page of a document, with the command that is running."""
    from truerank.report.page import write_document

    write_document(replace(document, command=command_line()), path)
    say(f"wrote {path}")


def say_intervals(result: Result) -> None:
    """Say what the intervals are for, how they were made, which values have none, and what else to know."""
    for sentence in interval_sentences(result):
        say(sentence)
    if result.bounds:
        level = percent(result.bounds[0].level or 0, space=" ")
        say(f"Bounds: the range of values that the sampled ranks allow, at {level} confidence.")
    from truerank.split.notes import data_notes

    said = data_notes(result.data)  # when the data were read
    for note in (*result.notes, *result.best_sentences()):
        if note not in said:
            say(note)


def interval_sentences(result: Result) -> list[str]:
    """Return a sentence for each kind of interval in a result, and one that names estimators without."""
    names = {estimate.method: estimate.method for estimate in result.estimates}
    holds: list[str] = []
    if any(estimate.kind == "estimate" for estimate in result.estimates):  # half a second to import
        from truerank.inference.posterior.interval import posterior_sentences, without_rank

        names = {method: without_rank(method) for method in names}
        holds = posterior_sentences(result.estimates)
    methods: dict[tuple[str, float, str], dict[str, dict[str, None]]] = {}
    for estimate in result.estimates:
        if estimate.low is not None and estimate.level is not None:
            group = methods.setdefault((estimate.kind, estimate.level, estimate.target), {})
            group.setdefault(names[estimate.method], {})[estimate.estimator] = None
    sentences = []
    for (kind, level, target), group in methods.items():
        intervals = f"{percent(level, space=' ')} {{}}intervals for {_TARGETS[target]}"
        if kind == "exact":
            subject = "Values are exact" if len({key[0] for key in methods}) == 1 else "Exact values are"
            sentences += [f"{subject} for {_of_exact_values(intervals, method, target)}" for method in group]
        else:
            listed = "; ".join(f"{method} ({', '.join(names)})" for method, names in group.items())
            sentences.append(f"Estimates with {intervals.format('')}, by method: {listed}.")
    if holds:
        sentences.append(" ".join(holds))
    without = sorted({e.estimator for e in result.estimates if e.kind == "estimate" and e.low is None})
    return sentences + ([f"No interval for {', '.join(without)}."] if without else [])


def _of_exact_values(intervals: str, method: str, target: str) -> str:
    if method == "exact":
        return "all test users."
    name, _, correction = method.partition(", ")
    corrected = f" ({correction} correction)" if correction else ""
    users = "the sampled" if target == "test-users" else "these"
    return f"{users} test users; {intervals.format(_METHODS.get(name, name) + ' ')}{corrected}."


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
    for at, row in enumerate(table.rows):
        cells = [
            f"[bold]{escape(cell)}[/]" if (at, column) in table.strong else escape(cell)
            for column, cell in enumerate(row)
        ]
        grid.add_row(*cells)
    console = _console()
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _console() -> Console:
    """Return stdout as a terminal of its width, or as a file whose lines are never folded."""
    is_terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, width=None if is_terminal else 10_000)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show jobs while the block runs; silent when stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield SILENT
        return
    from truerank.core.progress_bars import Bars

    bars = Bars(console)
    try:
        yield bars
    finally:
        bars.close()
