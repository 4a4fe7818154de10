"""Every table and figure with what its last run found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truerank.papers.catalogue import RECIPES
from truerank.papers.recipe import Recipe
from truerank.papers.record import Run

#: what is said of tables that cannot be computed
NO_NUMBERS = "holds no numbers"
NO_DATA = "data not at hand"
NOT_RUN = "not run yet"


@dataclass(frozen=True)
class Line:
    """A table or figure and its last run.

    Parameters
    ----------
    recipe : which
    run : the last one; None where there is none
    is_reference : whether the run is the one that comes with the package
    """

    recipe: Recipe
    run: Run | None
    is_reference: bool = False

    @property
    def status(self) -> str:
        """What became of it, in words; ``in part`` where some of it was not run."""
        if not self.recipe.function:
            return NO_NUMBERS
        if self.run is None:
            return NOT_RUN if self.recipe.is_ready else NO_DATA
        return self.run.outcome.verdict + (", in part" if self.run.outcome.without else "")

    @property
    def how(self) -> str:
        """Date of the run and how it was made."""
        if self.run is None:
            return ""
        marks = (("quick", self.run.quick), ("full", self.run.full), ("reference", self.is_reference))
        return ", ".join([self.run.date, *(name for name, is_so in marks if is_so)])

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
            "without": [] if run is None else list(run.outcome.without),
            "date": None if run is None else run.date,
            "seconds": None if run is None else run.seconds,
            "cpu_seconds": None if run is None else run.cpu_seconds,
            "repeats": None if run is None else run.outcome.repeats,
            "quick": None if run is None else run.quick,
            "full": None if run is None else run.full,
            "reference": self.is_reference,
        }


def lines(own: Mapping[str, Run], reference: Mapping[str, Run]) -> list[Line]:
    """Return one line per table and figure: the user's last run, else the reference run.

    Parameters
    ----------
    own : last runs of the user
    reference : runs of the package
    """
    return [
        Line(recipe, own.get(name) or reference.get(name), name not in own and name in reference)
        for name, recipe in RECIPES.items()
    ]
