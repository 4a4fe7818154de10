"""Reports on recipes: tables of our numbers next to the printed ones, the status of recipes, and pages.

``runs_document`` is the page of some runs, ``gallery_page`` the Markdown page of the documentation with every
table and figure of the papers, written from the reference runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from truerank.core.chart import Document, Section
from truerank.core.errors import InvalidData
from truerank.core.table import Table, count_of
from truerank.papers.outcome import (
    BEYOND,
    NO_EVIDENCE,
    WIDTH,
    WITHIN,
    PaperNumber,
    RecipeOutcome,
    equals_p,
)
from truerank.papers.recipe import PAPERS, RECIPES, Recipe
from truerank.papers.record import Run

_SHOWN_SENTENCES = 2  # of a run, besides its verdict; more are folded
#: what stands before a printed number
MARKS = {"matches": "", WITHIN: "≈ ", BEYOND: "≠ ", "explained": "≠ ", "differs": "≠ ", NO_EVIDENCE: "? "}
LEGEND = (
    "Our number, and in brackets the printed one: no mark where they are the same, ≈ within and ≠ beyond "
    f"{WIDTH:g} standard errors, ? in a run that is too short to tell; then the difference in standard "
    "errors, where an error is known."
)


def comparison_tables(outcome: RecipeOutcome, *, only_printed: bool = False) -> tuple[Table, ...]:
    """Return our numbers with the printed ones in brackets; rows without a common column get separate tables.

    Parameters
    ----------
    outcome : of one recipe
    only_printed : leave out rows that have no printed number

    Examples
    --------
    >>> exact = PaperNumber("Y", "Recall", 8.84, 8.8411)
    >>> cells = (exact, PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03))
    >>> comparison_tables(RecipeOutcome(cells))[0].rows
    (('Y', '8.84 (8.84)', '56.55 (≈ 56.51, +1.3)'),)
    """
    rows: dict[str, dict[str, PaperNumber]] = {}
    for cell in outcome.cells:
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
        Table(
            ("", *columns),
            tuple((name, *(_cell_text(outcome, rows[name].get(c)) for c in columns)) for name in names),
        )
        for columns, names in tables
    )


def runs_document(runs: Iterable[Run], *, title: str, left_out: Sequence[str] = ()) -> Document:
    """Return a page of runs: verdict, notes and numbers of each.

    Parameters
    ----------
    runs : what was run
    title : of the page
    left_out : sentences on what was not run
    """
    listed_runs = list(runs)
    summary = Table(
        ("recipe", "status", "seconds"),
        tuple((run.name, run.verdict, f"{run.seconds:.1f}") for run in listed_runs),
    )
    sections = [Section("Summary", tuple(left_out), (replace(summary, notes=(LEGEND,)),))]
    sections += map(_section, listed_runs)
    facts = [("quick", "yes" if any(run.quick for run in listed_runs) else "no")]
    facts += [("seed", ", ".join(str(seed) for seed in sorted({run.seed for run in listed_runs})))]
    facts += [("date", max((run.date for run in listed_runs), default=""))]
    return Document(title, _agreement_sentence(listed_runs), tuple(sections), tuple(facts))


def _section(run: Run) -> Section:
    verdict, *others = outcome_sentences(run)
    drawn = [f"Figures are written by --out: {', '.join(run.figures)}."] if run.figures else []
    is_short = len(others) <= _SHOWN_SENTENCES
    return Section(
        f"{run.name}: {RECIPES[run.name].title}",
        notes=(verdict, *(others if is_short else ()), *drawn),
        tables=comparison_tables(run.outcome),
        details=() if is_short else tuple(others),
    )


def _agreement_sentence(runs: Sequence[Run]) -> str:
    """Return how many of the printed numbers were found again."""
    compared = [(run.outcome, cell) for run in runs for cell in run.outcome.cells if cell.printed is not None]
    if not compared:
        return "The papers print no numbers for what was run."
    agreeing = sum(outcome.cell_status(cell) in ("matches", WITHIN) for outcome, cell in compared)
    found = f"{agreeing:,} {'is' if agreeing == 1 else 'are'} found again"
    printed = count_of(len(compared), "printed number")
    return f"Of {printed}, {found}, to the last digit or within {WIDTH:g} standard errors."


def outcome_sentences(run: Run) -> tuple[str, ...]:
    """Return the verdict with the number of cells of each status, the joint test, notes, and gaps."""
    outcome = run.outcome
    counts = ", ".join(f"{count} {status}" for status, count in outcome.count().items())
    verdict = f"{run.verdict}: {counts}." if counts else f"{run.verdict}."
    joint = [] if outcome.joint is None else [f"{outcome.joint.sentence}."]
    missing = [f"Without {part}." for part in outcome.without]
    return (_upper(verdict), *joint, *outcome.notes, *missing)


def _cell_text(outcome: RecipeOutcome, cell: PaperNumber | None) -> str:
    if cell is None:
        return ""
    ours = f"{cell.value:.{cell.digits}f}"
    if cell.printed is None:
        return ours
    z = "" if cell.z is None else f", {cell.z:+.1f}"
    return f"{ours} ({MARKS[outcome.cell_status(cell)]}{cell.printed:.{cell.digits}f}{z})"


#: status of recipes without a run
NO_NUMBERS = "holds no numbers"
NO_DATA = "data not at hand"
NOT_RUN = "not run yet"


@dataclass(frozen=True)
class RecipeStatus:
    """Status of a table or figure: its recipe and its last run.

    Parameters
    ----------
    recipe : the table or figure
    run : the last one; None where there is none
    is_reference : whether the run is the one that comes with the package
    """

    recipe: Recipe
    run: Run | None
    is_reference: bool = False

    @property
    def status(self) -> str:
        """The verdict in words, with ``in part`` where some of it was not run."""
        if not self.recipe.function:
            return NO_NUMBERS
        if self.run is None:
            return NOT_RUN if self.recipe.is_ready else NO_DATA
        return self.run.verdict + (", in part" if self.run.outcome.without else "")

    @property
    def how(self) -> str:
        """Date of the run and how it was made."""
        run = self.run
        if run is None:
            return ""
        marks = (("quick", run.quick), ("full", run.full), ("reference", self.is_reference))
        repeats = [] if run.outcome.repeats is None else [f"{run.outcome.repeats} x"]
        return ", ".join([run.date, *repeats, *(name for name, is_so in marks if is_so)])

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        run = self.run
        return {
            "name": self.recipe.name,
            "title": self.recipe.title,
            "data": self.recipe.data,
            "is_ready": bool(self.recipe.function) and self.recipe.is_ready,
            "is_ours": self.recipe.is_ours,
            "status": self.status,
            "cells": {} if run is None else run.outcome.count(),
            "joint": None if run is None or run.outcome.joint is None else run.outcome.joint.to_dict(),
            "without": [] if run is None else list(run.outcome.without),
            "date": None if run is None else run.date,
            "seconds": None if run is None else run.seconds,
            "cpu_seconds": None if run is None else run.cpu_seconds,
            "repeats": None if run is None else run.outcome.repeats,
            "quick": None if run is None else run.quick,
            "full": None if run is None else run.full,
            "reference": self.is_reference,
        }


def recipe_statuses(last: Mapping[str, Run], reference: Mapping[str, Run]) -> list[RecipeStatus]:
    """Return the status of every recipe by the last run on this machine, else by the reference run.

    Parameters
    ----------
    last : last runs on this machine, by recipe
    reference : runs that come with the package
    """
    return [
        RecipeStatus(recipe, last.get(name) or reference.get(name), name not in last and name in reference)
        for name, recipe in RECIPES.items()
    ]


_HEAD = """\
# Gallery: every table and figure of five papers, computed here
<!-- written by `make gallery`, do not edit -->

{legend} Rows without a printed number are left out; the command of each table prints them too.

Seconds are those of processors, in the run that wrote this page. Recipes share fits and keep finished pieces:
the first that needs a piece pays for it, and what an earlier run had kept costs nothing. No run is a quick
one. One table of all items stands in [papers](papers.md), what is wrong in print in [errata](errata.md).
"""


def gallery_page(runs: Mapping[str, Run]) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    runs : the record, by recipe
    """
    lines = {
        name: RecipeStatus(recipe, runs.get(name)) for name, recipe in RECIPES.items() if not recipe.is_ours
    }
    parts = [_HEAD.format(legend=LEGEND)]
    for paper, title in PAPERS.items():
        of_paper = [line for line in lines.values() if line.recipe.paper == paper]
        parts += [f"## {title}\n", _overview(of_paper)]
        for line in of_paper:
            if line.run is not None:
                parts.append("\n\n".join(_entry(line, line.run)) + "\n")
    return "\n".join(parts)


#: what encloses the table of all items on a page
ITEMS = ("<!-- written by `make gallery` from the record, do not edit -->", "<!-- end of the table -->")
_NOT_IN_FULL = "not run in full"


def items_table(runs: Mapping[str, Run]) -> str:
    """Return a row for every numbered table and figure: whether it is computed, when, and how it agrees.

    Experiments of this library on what a paper leaves open have rows too.

    Parameters
    ----------
    runs : the record, by recipe
    """
    columns = ("paper", "item", "implemented", "regenerated", "agree", "z or joint p", "remark")
    rows = [columns, tuple("---" for _ in columns)]
    for name, recipe in RECIPES.items():
        kind = "Own experiment" if recipe.is_ours else _printed_name(name)
        paper, item = PAPERS[recipe.paper].partition(",")[0], f"{kind}: {recipe.title}"
        run = runs.get(name)
        if not recipe.function:
            rows.append((paper, item, "-", "-", "-", "-", NO_NUMBERS))
        elif run is None:
            rows.append((paper, item, f"`{name}`", "no", "", "", _NOT_IN_FULL))
        else:
            rows.append((paper, item, f"`{name}`", *_row_of_run(run)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row_of_run(run: Run) -> tuple[str, str, str, str]:
    """Return when a run was made, how many cells agree, their joint test, and the verdict."""
    outcome = run.outcome
    repeats = f", {outcome.repeats} x" if (outcome.repeats or 0) > 1 else ""
    compared = [cell for cell in outcome.cells if cell.printed is not None]
    agreeing = sum(outcome.cell_status(cell) in ("matches", WITHIN) for cell in compared)
    z_scores = [abs(cell.z) for cell in compared if cell.z is not None]
    joint = "-" if not compared else "no standard errors" if repeats else "exact numbers"
    if outcome.joint is not None:
        joint = f"{equals_p(outcome.joint.p)}, largest z {max(z_scores):.1f} of {len(z_scores)}"
    missing = f"; without {'; '.join(outcome.without)}" if outcome.without else ""
    quick = "quick run: " if run.quick else ""
    remark = run.verdict.replace(f", joint {equals_p(outcome.joint.p)}", "") if outcome.joint else run.verdict
    return (
        run.date + repeats,
        f"{agreeing} of {len(compared)}" if compared else "-",
        joint,
        quick + remark + missing,
    )


def with_items(page: str, runs: Mapping[str, Run]) -> str:
    """Return a page with its table of all items written anew between its two comments.

    Raises
    ------
    InvalidData
        When the page does not hold the two comments.
    """
    before, start, rest = page.partition(ITEMS[0])
    _, end, after = rest.partition(ITEMS[1])
    if not start or not end:
        raise InvalidData(f"the page must hold the comments {ITEMS[0]!r} and {ITEMS[1]!r}.")
    return f"{before}{start}\n\n{items_table(runs)}\n{end}{after}"


def _overview(lines: list[RecipeStatus]) -> str:
    """Return one row per table and figure."""
    rows = ["| | shows | status | seconds |", "|---|---|---|---|"]
    for line in lines:
        name = _printed_name(line.recipe.name)
        linked = name if line.run is None else f"[{name}](#{anchor(line.recipe.name)})"
        seconds = "" if line.run is None else f"{line.run.cpu_seconds:.1f}"
        # the page must not depend on which data the machine that writes it has
        status = _NOT_IN_FULL if line.recipe.function and line.run is None else line.status
        rows.append(f"| {linked} | {line.recipe.title} | {status} | {seconds} |")
    return "\n".join(rows) + "\n"


def _entry(line: RecipeStatus, run: Run) -> Iterator[str]:
    """Yield the paragraphs of one table or figure."""
    name, outcome = line.recipe.name, run.outcome
    yield f'<a id="{anchor(name)}"></a>\n\n### {_printed_name(name)}: {line.recipe.title}'
    yield f"**{_upper(run.verdict)}.** {_counted(outcome)}{_run_sentence(run)}"
    if outcome.joint is not None:
        yield f"{outcome.joint.sentence}."
    for stem in run.figures:
        yield f"![{line.recipe.title}](gallery/{stem}.svg)"
    for table in comparison_tables(outcome, only_printed=True):
        yield table.markdown()
    sentences = (
        _differences(outcome) + [*outcome.notes] + [f"Without {sentence}." for sentence in outcome.without]
    )
    if sentences:
        yield "\n".join(f"* {_upper(sentence)}" for sentence in sentences)


def _counted(outcome: RecipeOutcome) -> str:
    counts = {status: count for status, count in outcome.count().items() if status != "new"}
    if not counts:
        return ""
    return (
        f"Of {sum(counts.values())} numbers: {', '.join(f'{n} {status}' for status, n in counts.items())}. "
    )


def _run_sentence(run: Run) -> str:
    kind = "quick run" if run.quick else "full run" if run.full else "run"
    repeats = f", {run.outcome.repeats} repetitions" if (run.outcome.repeats or 0) > 1 else ""
    return f"`{run.command}`: {kind} of {run.date}, {run.cpu_seconds:.1f} s{repeats}."


def _differences(outcome: RecipeOutcome) -> list[str]:
    """Return sentences on cells that do not agree: each reason with its cells."""
    where_by_note: dict[str, list[str]] = {}
    for cell in outcome.cells:
        if cell.status in ("differs", "explained", BEYOND):
            where_by_note.setdefault(cell.note, []).append(f"{cell.row} {cell.column}")
    sentences = []
    for note, where in where_by_note.items():
        shown = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
        sentences.append(f"≠ {note}: {shown}." if note else f"≠ without a reason of its own: {shown}.")
    return sentences


def anchor(name: str) -> str:
    """Return the anchor of a table or figure on the page.

    Examples
    --------
    >>> anchor("kr20.table3")
    'kr20-table3'
    """
    return name.replace(".", "-")


def _printed_name(name: str) -> str:
    """Return ``Table 3`` of ``kr20.table3``."""
    part = name.partition(".")[2]
    word = part.rstrip("0123456789")
    return f"{word.capitalize()} {part[len(word) :]}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
