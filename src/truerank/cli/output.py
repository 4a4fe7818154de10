"""Data on stdout, talk on stderr."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from enum import StrEnum

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerank.core.estimate import Estimate
from truerank.core.result import Result


class Format(StrEnum):
    """How a command prints its data."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


_TARGETS = {
    "test-users": "the value of all test users",
    "population": "all users like these",
    "": "the mean",
}
_KINDS = {"exact": "exact values", "estimate": "estimates", "bound": "bounds"}


def say(text: str) -> None:
    """Talk to the person, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(text))


def emit(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def render(result: Result, style: Format) -> str:
    """Return the result in one of the four formats."""
    if style is Format.json:
        return result.to_json()
    if style is Format.csv:
        fields = list(result.estimates[0].to_dict())
        entries = (*result.estimates, *result.bounds)
        return table_text(fields, [list(e.to_dict().values()) for e in entries], style)
    metrics = result.metrics()
    is_sampled = any(e.kind != "exact" for e in result.estimates)
    lines = dict.fromkeys((e.model, e.estimator) for e in result.estimates)
    rows = []
    for model, estimator in lines:
        found = [result.estimate(metric, model, estimator) for metric in metrics]
        rows.append([model, *([estimator] if is_sampled else []), *(_with_interval(e) for e in found)])
    allowed: dict[str, list[str]] = {}
    for bound in result.bounds:
        allowed.setdefault(bound.model, []).append(f"[{bound.low:.4f}, {bound.high:.4f}]")
    rows += [[model, "bounds", *cells] for model, cells in allowed.items()]
    columns = ["model", *(["estimator"] if is_sampled else []), *metrics]
    needed = sum(max(map(len, column)) + 2 for column in zip(columns, *rows, strict=True)) - 2
    if style is Format.table and needed > _console().width:
        # the interval below the value instead of beside it
        rows = [[cell.replace(" [", "\n[", 1) for cell in row] for row in rows]
    return table_text(columns, rows, style)


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


def _with_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.4f}"
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def table_text(columns: Sequence[str], rows: Sequence[Sequence[object]], style: Format) -> str:
    """Return rows as a table, CSV or Markdown; numbers are aligned right in tables."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if style is Format.csv:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([list(columns), *cells])
        return buffer.getvalue()
    if style is Format.markdown:
        lines = [columns, ["---"] * len(columns), *cells]
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
    return _rich_table(columns, cells)


def _rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        is_number = all(row[index].lstrip("-")[:1].isdigit() or row[index] == "" for row in cells)
        table.add_column(column, justify="right" if is_number and cells else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    console = _console()
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _console() -> Console:
    """Return stdout as a terminal of its width, or as a file whose lines are never folded."""
    is_terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, width=None if is_terminal else 10_000)
