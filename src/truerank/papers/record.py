"""Stored runs of recipes: the last run of each on this machine, and the reference runs of the package."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from truerank.core.checkpoint import clear_place, make_folder, replace_file, replace_text
from truerank.core.digest import content_digest
from truerank.core.errors import DataWarning, InvalidData
from truerank.core.provenance import from_fields, parse_json
from truerank.papers.outcome import UNCOMPARED, IndependentCells, PaperNumber, RecipeOutcome
from truerank.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RowT = TypeVar("RowT")

#: folder of a store that holds the last runs
RUNS = "runs"
#: significant digits that a record keeps of a number
_DIGITS = 8


@dataclass(frozen=True)
class Run:
    """One run of a recipe.

    Parameters
    ----------
    name : of the recipe
    outcome : what it found, without the figures themselves
    figures : file stems of its figures
    date : when it ended, as 2026-11-16 (UTC)
    seconds : how long it took, by the clock
    cpu_seconds : processor time, that of its worker processes included
    quick, full : how it was run
    repeats : repetitions that the user asked for; None for the recipe's own number
    seed : of everything random
    version : of truerank
    without : models that were left out
    protocol : how the experiment was made, where the user said so
    """

    name: str
    outcome: RecipeOutcome
    figures: tuple[str, ...] = ()
    date: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    quick: bool = False
    full: bool = False
    repeats: int | None = None
    seed: int = 0
    version: str = __version__
    without: tuple[str, ...] = ()
    protocol: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON; a cell is a list."""
        outcome = self.outcome
        return {
            "name": self.name,
            "date": self.date,
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "quick": self.quick,
            "full": self.full,
            "told": self.repeats,
            "seed": self.seed,
            "version": self.version,
            "left_out": list(self.without),
            "protocol": self.protocol,
            "repeats": outcome.repeats,
            "short": outcome.short,
            "independent": None if outcome.independent is None else list(astuple(outcome.independent)),
            "reason": outcome.reason,
            "without": list(outcome.without),
            "notes": list(outcome.notes),
            "figures": list(self.figures),
            "cells": [
                [c.row, c.column, c.printed, _short(c.value), _short(c.error), c.digits, c.note, c.reach]
                for c in outcome.cells
            ],
        }

    @property
    def verdict(self) -> str:
        """The verdict of the outcome; a figure without printed numbers is drawn."""
        verdict = self.outcome.verdict
        return f"drawn, {verdict}" if verdict == UNCOMPARED and self.figures else verdict

    @property
    def command(self) -> str:
        """The command that repeats the run.

        Examples
        --------
        >>> Run("r19.table2", RecipeOutcome(), quick=True, repeats=20).command
        'truerank paper run r19.table2 --quick --repeats 20'
        """
        options = [name for name, is_so in (("--quick", self.quick), ("--full", self.full)) if is_so]
        options += [f"--repeats {self.repeats}"] if self.repeats is not None else []
        options += [f"--seed {self.seed}"] if self.seed else []
        options += [f"--protocol {self.protocol}"] if self.protocol else []
        options += [f"--without {model}" for model in self.without]
        return " ".join(["truerank paper run", self.name, *options])

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Run:
        """Return the run that ``to_dict`` wrote."""
        stored = from_fields(_StoredRun, fields, "a record of runs")
        outcome = RecipeOutcome(
            tuple(_from_row(PaperNumber, cell) for cell in stored.cells),
            notes=stored.notes,
            reason=stored.reason,
            without=stored.without,
            repeats=stored.repeats,
            short=stored.short,
            independent=None
            if stored.independent is None
            else _from_row(IndependentCells, stored.independent),
        )
        names = ("name", "date", "seconds", "cpu_seconds", "quick", "full", "seed", "version", "protocol")
        plain = {name: getattr(stored, name) for name in names}
        return cls(
            outcome=outcome, figures=stored.figures, repeats=stored.told, without=stored.left_out, **plain
        )


@dataclass(frozen=True)
class _StoredRun:
    """The JSON form of a run, with the types of its fields."""

    name: str
    date: str
    seconds: float
    cpu_seconds: float
    quick: bool
    full: bool
    told: int | None
    seed: int
    version: str
    left_out: tuple[str, ...]
    repeats: int | None
    short: str
    independent: tuple[Any, ...] | None
    reason: str
    without: tuple[str, ...]
    notes: tuple[str, ...]
    figures: tuple[str, ...]
    cells: tuple[tuple[Any, ...], ...]
    protocol: str = ""  # records of older versions have none


def _from_row(cls: type[RowT], row: Sequence[Any]) -> RowT:
    """Return the object whose fields stand in a list."""
    names = [field.name for field in dataclass_fields(cast(Any, cls))]
    if len(row) != len(names):
        raise InvalidData(
            f"a record of runs must be the JSON that truerank wrote, but a list has {len(row)} values "
            f"instead of {len(names)}."
        )
    return from_fields(cls, dict(zip(names, row, strict=True)), "a record of runs")


def keep_run(folder: Path, run: Run) -> None:
    """Store a run as the last one of its recipe, with a digest, and its figures as SVG files."""
    runs = folder / RUNS
    make_folder(runs, "the last run")
    text = runs_to_json([run])
    kept = f'{{"blake2b": "{content_digest([text])}", "runs":\n{text}}}\n'
    clear_place(runs / f"{run.name}.json")
    replace_text(runs / f"{run.name}.json", kept, "the last run")
    for stem, figure in run.outcome.figures.items():
        clear_place(runs / f"{stem}.svg")
        replace_file(runs / f"{stem}.svg", partial(save_svg, figure), "a figure")


def last_runs(folder: Path | None) -> dict[str, Run]:
    """Return the last run of each recipe that was run with this store; a damaged file is told and skipped."""
    last = {}
    for path in sorted((folder / RUNS).glob("*.json")) if folder is not None else ():
        kept = _read_kept(path)
        if kept is None or kept.name != path.stem:
            warnings.warn(
                f"'{path}' is damaged and left out. Run {path.stem} again.", DataWarning, stacklevel=2
            )
        else:
            last[kept.name] = kept
    return last


def _read_kept(path: Path) -> Run | None:
    """Return the run of a file that ``keep_run`` wrote, None where its digest is another one."""
    try:
        head, _, text = path.read_bytes().decode().partition("\n")
        text = text.removesuffix("}\n")
        (run,) = runs_from_json(text)
        return run if head == f'{{"blake2b": "{content_digest([text])}", "runs":' else None
    except (OSError, ValueError):
        return None


def reference_runs() -> dict[str, Run]:
    """Return the runs that the package holds, by recipe."""
    text = resources.files("truerank.papers").joinpath("record.json").read_text(encoding="utf-8")
    return {run.name: run for run in runs_from_json(text)}


def runs_to_json(runs: Iterable[Run]) -> str:
    """Return runs as JSON, one cell per line.

    Examples
    --------
    >>> run = Run("r19.table1", RecipeOutcome((PaperNumber("A", "AUC", 0.99, 0.9901),)))
    >>> runs_from_json(runs_to_json([run])) == [run]
    True
    """
    return "[\n" + ",\n".join(_text(run) for run in runs) + "\n]\n"


def runs_from_json(text: str) -> list[Run]:
    """Return the runs of a JSON text.

    Raises
    ------
    InvalidData
        When the text holds no runs.
    """
    runs = from_fields(list[Any], parse_json(text, "a record of runs"), "a record of runs")
    return [Run.from_dict(fields) for fields in runs]


def save_svg(figure: Figure, file: BinaryIO | Path) -> None:
    """Write a figure so that the same figure gives the same bytes; text stays text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "truerank", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")


def _text(run: Run) -> str:
    fields = run.to_dict()
    cells = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in fields.pop("cells"))
    head = json.dumps(fields, ensure_ascii=False).removesuffix("}")
    return f'{head}, "cells": [\n{cells}\n]}}'


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
