"""The outcome of a recipe: our numbers next to the printed ones, whether they agree, and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: differences of up to this many standard errors count as sampling error
TOLERATED = 4.0


@dataclass(frozen=True)
class PaperNumber:
    """One number of a printed table, and ours.

    Parameters
    ----------
    row, column : where it stands
    printed : the number in the paper; None where the paper prints none
    value : our number
    error : standard error of the difference, from the repetitions on both sides; 0 for exact numbers
    digits : digits behind the point in print
    note : why the two differ, where that is known

    Examples
    --------
    >>> PaperNumber("Y", "Recall", 8.84, 8.8411).status, PaperNumber("Y", "Recall", 8.84, 8.85).status
    ('matches', 'differs')
    >>> PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03).status
    'within sampling error'
    """

    row: str
    column: str
    printed: float | None
    value: float
    error: float = 0.0
    digits: int = 2
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus printed."""
        return None if self.printed is None else self.value - self.printed

    @property
    def z(self) -> float | None:
        """The difference in standard errors, rounding of the printed number included."""
        if self.difference is None or self.error == 0:
            return None
        rounding = 10.0**-self.digits / math.sqrt(12)
        return self.difference / math.hypot(self.error, rounding)

    @property
    def status(self) -> str:
        """One of ``matches``, ``within sampling error``, ``explained``, ``differs``, ``new``."""
        if self.difference is None:
            return "new"
        if abs(self.difference) <= 0.5 * 10.0**-self.digits * (1 + 1e-9):
            return "matches"
        if self.z is not None and abs(self.z) <= TOLERATED:
            return "within sampling error"
        return "explained" if self.note else "differs"

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "row": self.row,
            "column": self.column,
            "printed": self.printed,
            "value": self.value,
            "difference": self.difference,
            "error": self.error,
            "status": self.status,
            "note": self.note,
        }


#: from the worst to the best
_STATUSES = ("differs", "explained", "within sampling error", "matches")
#: status of a recipe that has no number to compare
UNCOMPARED = "no printed numbers"


@dataclass(frozen=True)
class RecipeOutcome:
    """Numbers and figures of a recipe.

    Parameters
    ----------
    cells : our numbers next to the printed ones
    figures : file stem to figure
    notes : sentences on what was found
    reason : why cells differ, as far as the recipe knows: a clause that can follow "because"
    without : what could not be run or was left out, and why
    repeats : repetitions of the random experiment; None where nothing is random
    """

    cells: tuple[PaperNumber, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    without: tuple[str, ...] = ()
    repeats: int | None = None

    def count(self) -> dict[str, int]:
        """Return how many cells have each status."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            counts[cell.status] = counts.get(cell.status, 0) + 1
        return counts

    @property
    def status(self) -> str:
        """The worst status of a cell that has a printed number.

        Examples
        --------
        >>> near = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
        >>> RecipeOutcome((near, PaperNumber("Y", "Recall", 8.84, 8.84))).status, RecipeOutcome().status
        ('within sampling error', 'no printed numbers')
        """
        counts = self.count()
        return next((status for status in _STATUSES if counts.get(status)), UNCOMPARED)

    @property
    def verdict(self) -> str:
        """The status in words, with the reason that the recipe states for cells that differ.

        Examples
        --------
        >>> cells = (PaperNumber("X", "AUC", 89.13, 89.2), PaperNumber("Y", "AUC", 85.33, 85.33))
        >>> RecipeOutcome(cells, reason="the start of X is not given").verdict
        'differs because the start of X is not given (1 of 2 cells)'
        """
        if self.status not in ("differs", "explained"):
            return self.status
        counts = self.count()
        off = counts.get("differs", 0) + counts.get("explained", 0)
        cells = f"({off} of {len(self.cells) - counts.get('new', 0)} cells)"
        notes = dict.fromkeys(cell.note for cell in self.cells if cell.status == "explained")
        reason = self.reason or ("; ".join(notes) if self.status == "explained" else "")
        return f"differs because {reason} {cells}" if reason else f"differs, and it is not known why {cells}"
