"""``truerank paper``: tables and figures of the papers, beside the printed numbers."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from truerank.cli.output import Format, emit, say, table_text
from truerank.cli.progress import shown_progress
from truerank.core.errors import InvalidParameter
from truerank.core.output import replace_file
from truerank.core.threads import available_threads
from truerank.papers.outcome import Outcome

app = typer.Typer(help="Reproduce tables and figures of the papers.", no_args_is_help=True)


def _recipe_names(incomplete: str) -> list[str]:
    from truerank.papers import RECIPES

    return [name for name in ["all", *RECIPES] if name.startswith(incomplete)]


@app.command("list")
def list_recipes(format: Annotated[Format, typer.Option(help="How to print.")] = Format.table) -> None:
    """List the tables and figures that can be reproduced, and whether their data lie on this machine."""
    from truerank.papers import RECIPES

    columns = ("name", "data", "ready", "title")
    rows = [(r.name, r.data, "yes" if r.is_ready else "data not at hand", r.title) for r in RECIPES.values()]
    if format is Format.json:
        emit(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2))
    else:
        emit(table_text(columns, rows, format))


@app.command("run")
def run_recipes(
    names: Annotated[list[str], typer.Argument(help="Recipes, or all.", autocompletion=_recipe_names)],
    repeats: Annotated[
        int | None, typer.Option(help="Repetitions of random experiments; the paper's number by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    out: Annotated[Path | None, typer.Option(help="Write figures and tables into this folder.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Keep fits, exact ranks and finished pieces here; a later run goes on from there. "
            "By default the folder truerank/papers of the user's cache.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Neither use nor keep finished pieces.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's whole search where a recipe has a reduced one.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes of recipes that can use several; one per core by default.")
    ] = None,
) -> None:
    """Run recipes and print our numbers beside the printed ones."""
    from truerank.papers import RECIPES, PaperStore, Settings, run_recipe

    if out is not None and not out.is_dir():
        raise InvalidParameter(f"--out must be an existing folder, got '{out}'. Create it first.")
    chosen = [name for name, recipe in RECIPES.items() if recipe.is_ready] if names == ["all"] else names
    if fresh and keep is not None:
        raise InvalidParameter("give either --keep or --fresh, not both.")
    store = PaperStore(None if fresh else keep or _cache())
    found: dict[str, Outcome] = {}
    n_workers = workers if workers is not None else available_threads()
    for name in chosen:
        started = time.perf_counter()
        with shown_progress() as progress:
            settings = Settings(repeats, seed, progress, store, workers=n_workers, full=full)
            found[name] = run_recipe(name, settings)
        say(f"{name}: {_told(found[name])} ({time.perf_counter() - started:.1f} s)")
        for note in found[name].notes:
            say(f"  {note}")
        if out is not None:
            _write(name, found[name], out)
        if format is not Format.json and found[name].cells:
            emit(_cells(name, found[name], format))
    if format is Format.json:
        emit(json.dumps({name: [c.to_dict() for c in o.cells] for name, o in found.items()}, indent=2))


def _cache() -> Path:
    """Return the folder for what can be computed again: of the user, or $TRUERANK_CACHE."""
    named = os.environ.get("TRUERANK_CACHE")
    if named:
        return Path(named) / "papers"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "truerank" / "papers"


def _told(outcome: Outcome) -> str:
    cells = ", ".join(f"{count} {status}" for status, count in outcome.count().items())
    figures = f"{len(outcome.figures)} figure{'s' if len(outcome.figures) > 1 else ''}"
    return "; ".join(part for part in (cells, figures if outcome.figures else "") if part)


def _cells(name: str, outcome: Outcome, style: Format) -> str:
    columns = ("recipe", "row", "column", "printed", "here", "difference", "error", "status", "note")
    rows = []
    for cell in outcome.cells:
        digits = cell.digits
        shown = [
            "" if x is None else f"{x:.{n}f}" for x, n in ((cell.printed, digits), (cell.value, digits + 1))
        ]
        gap = "" if cell.difference is None else f"{cell.difference:+.{digits + 1}f}"
        error = f"{cell.error:.{digits + 1}f}" if cell.error else ""
        rows.append((name, cell.row, cell.column, *shown, gap, error, cell.status, cell.note))
    return table_text(columns, rows, style)


def _write(name: str, outcome: Outcome, folder: Path) -> None:
    if outcome.cells:
        path = folder / f"{name}.csv"
        text = _cells(name, outcome, Format.csv)
        replace_file(path, lambda part: part.write_text(text), "--out")
        say(f"  wrote {path}")
    for stem, figure in outcome.figures.items():
        for suffix in (".svg", ".png"):
            path = folder / f"{stem}{suffix}"
            save = partial(figure.savefig, dpi=150, facecolor="white")
            replace_file(path, save, "--out")
            say(f"  wrote {path}")
