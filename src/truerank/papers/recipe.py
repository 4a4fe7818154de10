"""What a recipe is, how it is told to run, and the numbers in print."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from truerank.core.check import check_at_least
from truerank.core.errors import InvalidParameter
from truerank.core.progress import SILENT, Progress
from truerank.data import find_local
from truerank.papers.store import PaperStore


@dataclass(frozen=True)
class Settings:
    """How to run a recipe.

    Parameters
    ----------
    repeats : repetitions of random experiments; None takes the paper's number
    seed : of everything random
    progress : where long jobs report
    store : where data, exact ranks and finished pieces are kept, so that a run can be resumed
    workers : processes of recipes that can use several; more than one needs a script that is guarded by
        ``if __name__ == "__main__"``
    full : the paper's whole search where a recipe has a reduced one
    quick : fewer repetitions, and without what takes long to fit

    Examples
    --------
    >>> Settings().repeated(100, quick=10), Settings(quick=True).repeated(100, quick=10)
    (100, 10)
    >>> Settings(repeats=7, quick=True).repeated(100, quick=10)
    7
    """

    repeats: int | None = None
    seed: int = 0
    progress: Progress = SILENT
    store: PaperStore = field(default_factory=PaperStore)
    workers: int = 1
    full: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        check_at_least("workers", self.workers, 1)
        if self.repeats is not None and self.repeats < 2:
            raise InvalidParameter(f"repeats must be at least 2, got {self.repeats}.")
        if self.full and self.quick:
            raise InvalidParameter("a run is either quick or full, not both.")

    def repeated(self, usual: int, *, quick: int | None = None) -> int:
        """Return how often to repeat: as told, else the number of a quick run or the usual one."""
        if self.repeats is not None:
            return self.repeats
        return quick if self.quick and quick is not None else usual


@dataclass(frozen=True)
class Recipe:
    """One table or figure of a paper.

    Parameters
    ----------
    name : ``paper.table`` as on the command line
    title : what it shows
    function : ``module:function`` that takes ``Settings`` and returns an ``Outcome``; empty where nothing can
        be computed
    data : the data set it needs; empty for none
    slow : why a quick run leaves it out; empty where it does not
    is_ours : whether it is an experiment of this library rather than a table or figure of the paper
    """

    name: str
    title: str
    function: str = ""
    data: str = ""
    slow: str = ""
    is_ours: bool = False

    @property
    def paper(self) -> str:
        """Key of the paper, such as ``kr20``."""
        return self.name.partition(".")[0]

    @property
    def is_ready(self) -> bool:
        """Whether its data set lies on this machine."""
        return not self.data or find_local(self.data) is not None


def printed(paper: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a printed table."""
    text = resources.files("truerank.papers").joinpath("printed", f"{paper}.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)[table]["rows"]
    return rows
