"""What a command writes: data to stdout and files, messages and progress bars to stderr.

A pipe sees only data. Progress bars appear only when stderr is a terminal.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console

from truerank.cli.interrupt import WatchedProgress, note_written
from truerank.cli.messages import command_line
from truerank.cli.options import Format
from truerank.core.display import lay_out, visible, wrap_words
from truerank.core.errors import InvalidParameter
from truerank.core.progress import COMPILATION, SILENT, Progress, ProgressTask
from truerank.core.table import Table, escape_latex, escape_markdown, percent

if TYPE_CHECKING:
    from truerank.core.chart import Document
    from truerank.core.ranks import SampledRanks
    from truerank.core.result import Result, Segments

#: what --out may end in
SUFFIXES = {
    ".json": Format.json,
    ".csv": Format.csv,
    ".md": Format.markdown,
    ".tex": Format.latex,
    ".txt": Format.table,
}
_BOLD, _NOT_BOLD = "\x1b[1m", "\x1b[0m"
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
    if suffixes and path.suffix.lower() not in suffixes:
        raise InvalidParameter(f"{option} must end in {_either(suffixes)}, got {path.name!r}.")


def _either(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


_talk = {"quiet": False, "verbose": False}


@contextmanager
def talking(*, quiet: bool, verbose: bool) -> Iterator[None]:
    """Say nothing, or more than usual, while the block runs: how long each step and all of it took."""
    started, compiled = time.perf_counter(), COMPILATION.seconds
    before = dict(_talk)
    _talk.update(quiet=quiet, verbose=verbose)
    COMPILATION.tell = _tell_compiling
    try:
        yield
        if verbose:
            if COMPILATION.seconds > compiled:
                say(f"compiling: {COMPILATION.seconds - compiled:.2f} s.")
            say(f"{time.perf_counter() - started:.1f} s in all.")
    finally:
        COMPILATION.tell = None
        _talk.update(before)


def _tell_compiling() -> None:
    """Say once, to somebody who waits or asked for more, why a first run takes longer."""
    COMPILATION.tell = None
    if not (sys.stderr.isatty() or _talk["verbose"]):
        return
    if COMPILATION.is_kept:
        say("Compiling inner loops, which takes some seconds; later runs find them compiled.")
    else:
        say("Compiling inner loops, in every run: no folder can be written to. Set NUMBA_CACHE_DIR to one.")


def say(text: str, *, always: bool = False) -> None:
    """Write a message to stderr; in a terminal its lines are broken between words.

    Parameters
    ----------
    text : one or more lines
    always : with ``-q`` too
    """
    if _talk["quiet"] and not always:
        return
    shown = visible(text, _encoding(sys.stderr), keep="\n")
    lines = wrap_words(shown, terminal_width(sys.stderr), indent="  ")
    # rich is asked, because it may be drawing a progress bar that the message must not cut in two
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print("\n".join(lines))


def say_written(path: Path, *, indent: str = "") -> None:
    """Say that a file was written, now and where the command is interrupted later."""
    note_written(path)
    say(f"{indent}wrote {path}")


def say_table(table: Table) -> None:
    """Write a table to stderr."""
    if _talk["quiet"]:
        return
    sys.stderr.write(_table_text(table, Format.table, sys.stderr) + "\n")


def emit(text: str) -> None:
    """Write data to stdout; what a terminal would obey is shown, except for our own bold letters."""
    parts = re.split(
        f"({re.escape(_BOLD)}|{re.escape(_NOT_BOLD)})", text if text.endswith("\n") else text + "\n"
    )
    encoding = _encoding(sys.stdout)
    for part in parts:
        sys.stdout.write(part if part in (_BOLD, _NOT_BOLD) else visible(part, encoding, keep="\n\t"))


def terminal_width(stream: TextIO) -> int | None:
    """Return the columns of the terminal behind a stream, or None for a file or pipe."""
    return Console(file=stream).width if stream.isatty() else None


def _encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"


Parts = Sequence[Table | str]


def show(make: Callable[[Format], Parts], style: Format, out: Path | None = None) -> None:
    """Print what a command answers, and write it to the file of ``--out`` in the format of its suffix.

    Parameters
    ----------
    make : tables and sentences for a format; for JSON, one text
    style : of stdout
    out : already checked by ``check_file``
    """
    emit(_text_of(make(style), style, sys.stdout))
    if out is not None:
        style = SUFFIXES[out.suffix.lower()]
        write_text(out, _text_of(make(style), style, None))


def _text_of(parts: Parts, style: Format, stream: TextIO | None) -> str:
    """Return all parts, for a stream or for a file in UTF-8 whose lines may have any length."""
    texts = [
        prose(part, style, stream) if isinstance(part, str) else _table_text(part, style, stream)
        for part in parts
    ]
    return "\n\n".join(text.removesuffix("\n") for text in texts)


def prose(text: str, style: Format, stream: TextIO | None = None) -> str:
    """Return a sentence that stands among tables."""
    if style is Format.latex:
        return escape_latex(text)
    if style is Format.markdown:
        return "\n\n".join(escape_markdown(part) for part in text.split("\n\n"))
    if style is not Format.table or stream is None:
        return text
    return "\n".join(wrap_words(visible(text, _encoding(stream), keep="\n"), terminal_width(stream)))


def _table_text(table: Table, style: Format, stream: TextIO | None) -> str:
    if style is Format.csv:
        return table.csv()
    if style is Format.markdown:
        return table.markdown()
    if style is Format.latex:
        return table.latex()
    if stream is None:
        return lay_out(table)
    is_bold = stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return lay_out(
        table,
        terminal_width(stream),
        encoding=_encoding(stream),
        bold=_embolden if is_bold else None,
    )


def _embolden(text: str) -> str:
    return f"{_BOLD}{text}{_NOT_BOLD}"


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of anything; nothing stands for None."""
    cells = (tuple("" if cell is None else str(cell) for cell in row) for row in rows)
    return Table(tuple(columns), tuple(cells))


def result_parts(result: Result, style: Format) -> Parts:
    """Return a result as ``show`` takes it."""
    if style is Format.json:
        return [result.to_json()]
    if style is Format.csv:
        rows = [entry.to_dict() for entry in (*result.estimates, *result.bounds)]
        return [grouped_rows(rows, result.segments)]
    return [result.to_table(), *(part for one in result.segments for part in segment_parts(one, style))]


def grouped_rows(rows: Sequence[Mapping[str, object]], segments: Sequence[Segments]) -> Table:
    """Return rows of all users, and those of groups below them; only then there are columns for these."""
    if segments:
        rows = [{"by": None, "group": None, **row} for row in rows]
        rows = [*rows, *(row for one in segments for row in one.rows())]
    return table_of(list(rows[0]), [list(row.values()) for row in rows])


def segment_parts(segments: Segments, style: Format) -> Parts:
    """Return the values by group as ``show`` takes them; a terminal has no place for a title and notes."""
    table = segments.to_table()
    if style is not Format.table:
        return [table]
    return [table.title, table, *(["\n".join(segments.notes)] if segments.notes else [])]


def write_text(path: Path, text: str) -> None:
    """Write what ``--out`` asks for, all or nothing."""
    from truerank.core.checkpoint import replace_text

    replace_text(path, text if text.endswith("\n") else text + "\n", "--out")
    say_written(path)


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
    say_written(path)


def write_page(document: Document, path: Path) -> None:
    """Write the page of a document, with the command that is running."""
    from truerank.report.page import write_document

    write_document(replace(document, command=command_line()), path)
    say_written(path)


def say_intervals(result: Result) -> None:
    """Say what the intervals are for, how they were made, which values have none, and what else to know."""
    for sentence in interval_sentences(result):
        say(sentence)
    if result.bounds:
        level = percent(result.bounds[0].level or 0, space=" ")
        say(f"Bounds: the range of values that the sampled ranks allow, at {level} confidence.")
    from truerank.split.notes import data_notes

    said = [*data_notes(result.data), *interruption_notes(result)]  # when data were read, or as a warning
    for note in (*result.notes, *result.best_sentences()):
        if note not in said:
            say(note)


def interruption_notes(result: Result) -> list[str]:
    """Return the notes of a result about trainings that were interrupted and models that are missing."""
    starts = [f"{name}: training was interrupted" for name in result.provenance.get("interrupted", {})]
    starts += ["interrupted:"] if "unfinished" in result.provenance else []
    return [note for note in result.notes if note.startswith(tuple(starts))]


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


class _Timed:
    """The progress protocol of core, measuring jobs and passing them on."""

    def __init__(self, inner: Progress) -> None:
        self.inner = inner
        self.started: dict[int, tuple[str, float]] = {}
        self.spent: dict[str, list[float]] = {}

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        task = self.inner.task(label, total)
        # the silent display gives every job the same object
        task = task if self.inner is not SILENT else _Unshown()
        self.started[id(task)] = (label, time.perf_counter())
        return task

    def done(self, task: ProgressTask) -> None:
        label, started = self.started.pop(id(task))
        self.spent.setdefault(label, []).append(time.perf_counter() - started)
        self.inner.done(task)


class _Unshown:
    def advance(self, steps: int = 1) -> None:
        pass


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show jobs while the block runs, with ``-v`` also how long each took.

    Bars are drawn only where stderr is a terminal, and not with ``-q``.
    """
    with _drawn_progress() as drawn:
        if not _talk["verbose"]:
            yield WatchedProgress(drawn)
            return
        timed = _Timed(drawn)
        yield WatchedProgress(timed)
    for label, seconds in timed.spent.items():
        times = f", {len(seconds):,} times" if len(seconds) > 1 else ""
        say(f"{label}: {sum(seconds):.2f} s{times}.")


@contextmanager
def _drawn_progress() -> Iterator[Progress]:
    console = Console(stderr=True)
    if not console.is_terminal or _talk["quiet"]:
        yield SILENT
        return
    from truerank.core.progress_bars import Bars

    bars = Bars(console)
    try:
        yield bars
    finally:
        bars.close()
