"""Our numbers beside the printed ones, as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from truerank.core.document import Document, Section
from truerank.core.table import Table
from truerank.papers.catalogue import RECIPES
from truerank.papers.outcome import Cell, Outcome
from truerank.papers.record import Run

#: what stands before a printed number
MARKS = {"matches": "", "within sampling error": "≈ ", "explained": "≠ ", "differs": "≠ "}
LEGEND = (
    "Our number, and in brackets the printed one: no mark where they are the same, ≈ within sampling error, "
    "≠ beyond it."
)


def beside(cells: Sequence[Cell], *, only_printed: bool = False) -> tuple[Table, ...]:
    """Return cells as tables; rows that share no columns stand in tables of their own.

    Parameters
    ----------
    cells : of one recipe
    only_printed : leave out rows that have no printed number

    Examples
    --------
    >>> cells = (Cell("Y", "Recall", 8.84, 8.8411), Cell("Y", "Sampled", 56.51, 56.55, error=0.03))
    >>> beside(cells)[0].rows
    (('Y', '8.84 (8.84)', '56.55 (≈ 56.51)'),)
    """
    rows: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        rows.setdefault(cell.row, {})[cell.column] = cell
    if only_printed:
        rows = {name: row for name, row in rows.items() if any(c.printed is not None for c in row.values())}
    tables: list[tuple[list[str], list[str]]] = []
    for name, row in rows.items():
        known = next((table for table in tables if set(table[0]) & set(row)), None)
        if known is None:
            tables.append((list(row), [name]))
        else:
            known[0].extend(column for column in row if column not in known[0])
            known[1].append(name)
    return tuple(
        Table(("", *columns), tuple((name, *(_text(rows[name].get(c)) for c in columns)) for name in names))
        for columns, names in tables
    )


def document_of(runs: Iterable[Run], *, title: str, left_out: Sequence[str] = ()) -> Document:
    """Return a page with every run: what became of it, notes, and the numbers.

    Parameters
    ----------
    runs : what was run
    title : of the page
    left_out : sentences on what was not run
    """
    made = list(runs)
    summary = Table(
        ("recipe", "status", "seconds"),
        tuple((run.name, run.outcome.verdict, f"{run.seconds:.1f}") for run in made),
    )
    sections = [Section("Summary", tuple(left_out), (summary,))]
    sections += [
        Section(f"{run.name}: {RECIPES[run.name].title}", told(run.outcome), beside(run.outcome.cells))
        for run in made
    ]
    facts = [("quick", "yes" if any(run.quick for run in made) else "no")]
    facts += [("seed", ", ".join(str(seed) for seed in sorted({run.seed for run in made})))]
    facts += [("date", max((run.date for run in made), default=""))]
    return Document(title, LEGEND, tuple(sections), tuple(facts))


def told(outcome: Outcome) -> tuple[str, ...]:
    """Return the verdict with how often cells have each status, the notes and what is missing."""
    counts = ", ".join(f"{count} {status}" for status, count in outcome.count().items())
    verdict = f"{outcome.verdict}: {counts}." if counts else f"{outcome.verdict}."
    missing = [f"Without {one}." for one in outcome.without]
    return (verdict[0].upper() + verdict[1:], *outcome.notes, *missing)


def _text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    ours = f"{cell.value:.{cell.digits}f}"
    if cell.printed is None:
        return ours
    return f"{ours} ({MARKS[cell.status]}{cell.printed:.{cell.digits}f})"
