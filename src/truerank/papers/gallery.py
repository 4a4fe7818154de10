"""The gallery: every table and figure on one page, written from the record of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from truerank.papers.beside import LEGEND, beside
from truerank.papers.catalogue import PAPERS, RECIPES
from truerank.papers.listing import NOT_RUN, Line
from truerank.papers.outcome import Outcome
from truerank.papers.record import Run

_HEAD = """\
# Gallery: every table and figure of five papers, computed here
<!-- written by `make gallery`, do not edit -->

{legend} Rows without a printed number are left out; the command of each table prints them too.

Seconds are those of processors, in the run that wrote this page. Recipes share fits and keep finished pieces:
the first that needs a piece pays for it, and what an earlier run had kept costs nothing. A *quick* run has
fewer repetitions and leaves out what takes long to fit; what complete runs say stands in [papers](papers.md),
what is wrong in print in [errata](errata.md).
"""


def gallery_page(runs: Mapping[str, Run]) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    runs : the record, by recipe
    """
    lines = {name: Line(recipe, runs.get(name)) for name, recipe in RECIPES.items() if not recipe.is_ours}
    parts = [_HEAD.format(legend=LEGEND)]
    for paper, title in PAPERS.items():
        of_paper = [line for line in lines.values() if line.recipe.paper == paper]
        parts += [f"## {title}\n", _overview(of_paper)]
        for line in of_paper:
            if line.run is not None:
                parts.append("\n\n".join(_entry(line, line.run)) + "\n")
    return "\n".join(parts)


def _overview(lines: list[Line]) -> str:
    """Return one row per table and figure."""
    rows = ["| | shows | status | seconds |", "|---|---|---|---|"]
    for line in lines:
        name = _called(line.recipe.name)
        linked = name if line.run is None else f"[{name}](#{anchor(line.recipe.name)})"
        seconds = "" if line.run is None else f"{line.run.cpu_seconds:.1f}"
        # what lies on the machine that writes the page is of no interest
        status = NOT_RUN if line.recipe.function and line.run is None else line.status
        rows.append(f"| {linked} | {line.recipe.title} | {status} | {seconds} |")
    return "\n".join(rows) + "\n"


def _entry(line: Line, run: Run) -> Iterator[str]:
    """Yield the paragraphs of one table or figure."""
    name, outcome = line.recipe.name, run.outcome
    yield f'<a id="{anchor(name)}"></a>\n\n### {_called(name)}: {line.recipe.title}'
    yield f"**{_upper(outcome.verdict)}.** {_counted(outcome)}{_made(run)}"
    for stem in run.figures:
        yield f"![{line.recipe.title}](gallery/{stem}.svg)"
    for table in beside(outcome.cells, only_printed=True):
        yield table.markdown()
    told = _differences(outcome) + [*outcome.notes] + [f"Without {one}." for one in outcome.without]
    if told:
        yield "\n".join(f"* {_upper(one)}" for one in told)


def _counted(outcome: Outcome) -> str:
    counts = {status: count for status, count in outcome.count().items() if status != "new"}
    if not counts:
        return ""
    return (
        f"Of {sum(counts.values())} numbers: {', '.join(f'{n} {status}' for status, n in counts.items())}. "
    )


def _made(run: Run) -> str:
    kind = "quick run" if run.quick else "full run" if run.full else "run"
    repeats = f", {run.outcome.repeats} repetitions" if (run.outcome.repeats or 0) > 1 else ""
    return f"`{run.command}`: {kind} of {run.date}, {run.cpu_seconds:.1f} s{repeats}."


def _differences(outcome: Outcome) -> list[str]:
    """Return what is known of cells that lie beyond sampling error: each reason, and where it holds."""
    places: dict[str, list[str]] = {}
    for cell in outcome.cells:
        if cell.status in ("differs", "explained"):
            places.setdefault(cell.note, []).append(f"{cell.row} {cell.column}")
    told = []
    for note, where in places.items():
        shown = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
        told.append(f"≠ {note}: {shown}." if note else f"≠ without a reason of its own: {shown}.")
    return told


def anchor(name: str) -> str:
    """Return the place of a table or figure on the page.

    Examples
    --------
    >>> anchor("kr20.table3")
    'kr20-table3'
    """
    return name.replace(".", "-")


def _called(name: str) -> str:
    """Return ``Table 3`` of ``kr20.table3``."""
    part = name.partition(".")[2]
    word = part.rstrip("0123456789")
    return f"{word.capitalize()} {part[len(word) :]}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
