"""``truerank paper``: tables and figures of the papers, computed anew and set against the printed ones."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.completion import recipe_names
from truerank.cli.interrupt import kept_parts, tell_kept
from truerank.cli.messages import HelpGroup, OptionCommand
from truerank.cli.options import Format
from truerank.cli.output import (
    SUFFIXES,
    Parts,
    check_file,
    emit,
    say,
    say_table,
    say_written,
    show,
    shown_progress,
    table_of,
    write_page,
)
from truerank.core.errors import MOST_THREADS, InvalidData, InvalidParameter, UnknownName, check_at_least
from truerank.core.table import Table

if TYPE_CHECKING:
    from truerank.papers.outcome import RecipeOutcome
    from truerank.papers.record import Run


app = typer.Typer(
    cls=HelpGroup,
    help="Reproduce tables and figures of the papers.",
    no_args_is_help=True,
    add_completion=False,
)
_KEEP = (
    "Keep fits, exact ranks and finished parts in this folder; a later run continues from there. By default "
    "truerank/papers in the user's cache."
)


@app.command("list", cls=OptionCommand)
def list_recipes(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recipes or papers to describe in full, such as kr20.table3 or kr20.",
            autocompletion=recipe_names,
        ),
    ] = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    keep: Annotated[Path | None, typer.Option(help="The folder of --keep in earlier runs.")] = None,
) -> None:
    """List every table and figure of the papers with the result of the last run.

    With names, and in formats other than a table, also when it ran, how long, on which data, and what differs
    why. A run marked reference comes with the package.
    """
    from truerank.papers.gallery import recipe_statuses
    from truerank.papers.recipe import RECIPES
    from truerank.papers.record import last_runs, reference_runs

    check_file(out, "--out", SUFFIXES)
    for asked in names or ():
        _check_name(asked)
    wanted = {name for asked in names or ["all"] for name in RECIPES if _is_named(name, asked)}
    statuses = recipe_statuses(last_runs(keep or _cache()), reference_runs())
    listed = [line for line in statuses if line.recipe.name in wanted]
    rows = [
        (
            line.recipe.name,
            line.how,
            "" if line.run is None else f"{line.run.cpu_seconds:.1f}",
            line.recipe.data + ("" if line.recipe.is_ready else " (not at hand)"),
            line.recipe.title,
            line.status,
        )
        for line in listed
    ]

    def parts(style: Format) -> Parts:
        if style is Format.json:
            return [json.dumps([line.to_dict() for line in listed], indent=2)]
        if style is Format.table and not names:
            short = [(row[0], row[4], re.split(r" because | \(|: ", row[5])[0]) for row in rows]
            return [table_of(("name", "title", "status"), short)]
        columns = ("name", "last run", "cpu s", "data", "title", "status")
        if style is not Format.table:
            return [table_of(columns, rows)]
        return [
            table_of(
                columns[:1] + row[:1], [pair for pair in zip(columns[1:], row[1:], strict=True) if pair[1]]
            )
            for row in rows
        ]

    show(parts, format, out)
    if not names:
        say("More about one of them: truerank paper list NAME")


@app.command("run", cls=OptionCommand)
def run_recipes(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Recipes by name (kr20.table3), a whole paper by its key (kr20), or all.",
            autocompletion=recipe_names,
        ),
    ],
    repeats: Annotated[
        int | None,
        typer.Option(help="Repetitions of random experiments; as many as in the paper by default."),
    ] = None,
    seed: opt.Seed = 0,
    format: opt.OutputFormat = Format.table,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write figures and tables into this folder.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page with all numbers next to the printed ones to this file."),
    ] = None,
    keep: Annotated[Path | None, typer.Option(help=_KEEP)] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute everything anew and keep nothing.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Fewer repetitions and no models that take long to fit; all recipes within 15 minutes.",
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave out MODEL, or DATASET:MODEL, by the paper's name; can be repeated."),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(help="How an experiment is made: ours or published, for s21.table1 and its figures."),
    ] = "",
    full: Annotated[
        bool,
        typer.Option("--full", help="Search the paper's whole grid where a recipe searches a reduced one."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes of recipes that can use several; one per core by default.")
    ] = None,
) -> None:
    """Run recipes and print the numbers next to those of the paper.

    The last run of each recipe is kept, with its figures, and shown by paper list; where is said at the end.
    """
    from truerank.core.checkpoint import whole_or_nothing
    from truerank.core.parallel import available_threads
    from truerank.core.provenance import head, versions
    from truerank.papers.recipe import RECIPES, Settings, run_recipe
    from truerank.papers.record import RUNS, Run, keep_run
    from truerank.papers.store import PaperStore

    if out is not None and not out.is_dir():
        raise InvalidParameter(f"--out must be an existing folder, got '{out}'. Create it first.")
    check_file(None if out is None else out / "cells.csv", "--out")
    check_file(report, "--report", (".html", ".htm"))
    if fresh and keep is not None:
        raise InvalidParameter("give either --keep or --fresh, not both.")
    chosen, left_out = _chosen(names, quick)
    left_models = _models(without or [])
    if workers is not None:
        check_at_least("--workers", workers, 1, MOST_THREADS)
    n_workers = workers if workers is not None else available_threads()
    asked = Settings(
        repeats,
        seed,
        workers=n_workers,
        full=full,
        quick=quick,
        without=left_models,
        protocol=protocol,
    )
    store = PaperStore(None if fresh else keep or _cache())  # a folder is made when all else is right
    tell_kept(lambda: kept_parts(store.folder))
    runs: list[Run] = []
    for name in chosen:
        started, used = time.perf_counter(), _cpu_seconds()
        with shown_progress() as progress:
            try:
                with whole_or_nothing():
                    outcome = run_recipe(name, replace(asked, progress=progress, store=store))
            except InvalidData as error:  # of all recipes, one without its data must not stop the others
                if name in names:
                    raise
                left_out.append(f"{name}: not run, {error}")
                continue
        seconds, used = time.perf_counter() - started, _cpu_seconds() - used
        today = datetime.now(UTC).date().isoformat()
        figures = tuple(outcome.figures)
        made = Run(name, outcome, figures, today, seconds, used, quick, full, repeats, seed)
        runs.append(replace(made, without=left_models, protocol=protocol))
        if store.folder is not None:
            keep_run(store.folder, runs[-1])
        _show(runs[-1], format, out)
    if format is Format.json:
        recipes = {run.name: run.outcome.cells_to_dicts() for run in runs}
        provenance = {
            "repeats": repeats,
            "seed": seed,
            "quick": quick,
            "full": full,
            "protocol": protocol,
            "without": list(left_models),
            "data_hash": _data_hashes({RECIPES[run.name].data for run in runs}),
            "versions": versions(),
        }
        emit(json.dumps({**head("paper run"), "recipes": recipes, "provenance": provenance}, indent=2))
    if len(runs) > 1:
        rows = [(run.name, run.verdict, f"{run.seconds:.1f}") for run in runs]
        say_table(table_of(("recipe", "status", "seconds"), rows))
    for sentence in left_out:
        say(sentence)
    if store.folder is not None and runs:
        say(f"kept {len(runs)} run{'s' if len(runs) > 1 else ''} in {store.folder / RUNS}")
    if report is not None:
        _write_report(report, runs, left_out)


def _data_hashes(names: Iterable[str]) -> dict[str, str]:
    """Return a digest of the file of each data set that recipes name; those on toy data name none."""
    from truerank.core.digest import file_hash
    from truerank.data.catalogue import find_local

    paths = {name: find_local(name) for name in sorted(names) if name}
    return {name: file_hash(path) for name, path in paths.items() if path is not None and path.is_file()}


def _chosen(names: list[str], quick: bool) -> tuple[list[str], list[str]]:
    """Return the recipes to run, and a sentence for each that ``all`` or the name of a paper leaves out.

    All names are looked up before anything runs.
    """
    from truerank.papers.recipe import RECIPES

    chosen: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for asked in names:
        if asked in RECIPES:
            chosen[asked] = None
            continue
        _check_name(asked)
        for name, recipe in RECIPES.items():
            if asked not in ("all", recipe.paper) or name in names:
                continue
            if not recipe.function:
                left_out[f"{name}: not run, it holds no numbers ({recipe.title.lower()})."] = None
            elif not recipe.is_ready:
                left_out[f"{name}: not run, data set {recipe.data} is not at hand."] = None
            elif quick and recipe.slow:
                left_out[f"{name}: left out of a quick run, {recipe.slow}."] = None
            elif recipe.is_ours and asked != "all":
                left_out[f"{name}: not run, it is no part of the paper; it runs by its name."] = None
            else:
                chosen[name] = None
    return list(chosen), list(left_out)


def _is_named(name: str, asked: str) -> bool:
    """Whether a recipe is meant by its name, by its paper or by ``all``."""
    from truerank.papers.recipe import RECIPES

    return asked in ("all", name, RECIPES[name].paper)


def _check_name(asked: str) -> None:
    """Raise unless this is a recipe, a paper or ``all``."""
    from truerank.papers.recipe import PAPERS, RECIPES

    if asked not in ("all", *PAPERS, *RECIPES):
        error = UnknownName("paper or recipe", asked, [*PAPERS, *RECIPES, "all"])
        # without a near name the papers are enough; their 60 recipes stand in the list
        raise error if "Did you mean" in str(error) else UnknownName(error.kind, asked, [*PAPERS, "all"])


def _models(names: list[str]) -> tuple[str, ...]:
    """Return models to be left out; a name that no recipe has is refused."""
    if names:
        from truerank.papers.li2020 import SETUPS as FIRST
        from truerank.papers.li2023_models import MORE
        from truerank.papers.li2023_models import SETUPS as SECOND

        setups = (*FIRST.values(), *SECOND.values())
        known = {*MORE, *(model for setup in setups for model in setup.models)}
        exact = {f"{setup.dataset}:{model}" for setup in setups for model in (*setup.models, *MORE)}
        for name in names:
            if name not in known | exact:
                raise UnknownName("model", name, known)
    return tuple(names)


def _show(run: Run, format: Format, out: Path | None) -> None:
    """Summarise a run, print its cells and write its files."""
    outcome = run.outcome
    say(f"{run.name}: {run.verdict}; {_summary(outcome)} ({run.seconds:.1f} s)")
    if outcome.joint is not None:
        say(f"  {outcome.joint.sentence}")
    for note in outcome.notes:
        say(f"  {note}")
    for missing in outcome.without:
        say(f"  without {missing}")
    if out is not None:
        _write(run.name, outcome, out)
    if format is not Format.json and outcome.cells:
        show(lambda _: [_cells(run.name, outcome)], format)


def _write_report(path: Path, runs: list[Run], left_out: list[str]) -> None:
    from truerank.papers.gallery import runs_document

    named = ", ".join(run.name for run in runs) if len(runs) <= 3 else f"{len(runs)} recipes"
    write_page(runs_document(runs, title=f"papers: {named}", left_out=left_out), path)


def _cpu_seconds() -> float:
    """Return the processor seconds of this process and its finished children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _cache() -> Path:
    """Return the folder of kept parts: in $TRUERANK_CACHE, else in the user's cache."""
    named = os.environ.get("TRUERANK_CACHE")
    if named:
        return Path(named) / "papers"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "truerank" / "papers"


def _summary(outcome: RecipeOutcome) -> str:
    cells = ", ".join(f"{count} {status}" for status, count in outcome.count().items())
    figures = f"{len(outcome.figures)} figure{'s' if len(outcome.figures) > 1 else ''}"
    return "; ".join(part for part in (cells, figures if outcome.figures else "") if part)


def _cells(name: str, outcome: RecipeOutcome) -> Table:
    columns = ("recipe", "row", "column", "printed", "here", "difference", "error", "z", "status", "note")
    rows = []
    for cell in outcome.cells:
        digits = cell.digits
        shown = [
            "" if x is None else f"{x:.{n}f}" for x, n in ((cell.printed, digits), (cell.value, digits + 1))
        ]
        gap = "" if cell.difference is None else f"{cell.difference:+.{digits + 1}f}"
        error = f"{cell.error:.{digits + 1}f}" if cell.error else ""
        z = "" if cell.z is None else f"{cell.z:+.2f}"
        status = outcome.cell_status(cell)
        rows.append((name, cell.row, cell.column, *shown, gap, error, z, status, cell.note))
    return table_of(columns, rows)


def _write(name: str, outcome: RecipeOutcome, folder: Path) -> None:
    from truerank.core.checkpoint import replace_file, replace_text

    if outcome.cells:
        path = folder / f"{name}.csv"
        replace_text(path, _cells(name, outcome).csv(), "--out")
        say_written(path, indent="  ")
    for stem, figure in outcome.figures.items():
        for form in ("svg", "png"):
            path = folder / f"{stem}.{form}"
            save = partial(figure.savefig, format=form, dpi=150, facecolor="white")
            replace_file(path, save, "--out")
            say_written(path, indent="  ")
