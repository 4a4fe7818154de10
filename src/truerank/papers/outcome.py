"""What running a recipe gives: our number beside the printed one, and figures."""

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
class Cell:
    """One number of a table.

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
    >>> Cell("Y", "Recall", 8.84, 8.8411).status, Cell("Y", "Recall", 8.84, 8.85).status
    ('matches', 'differs')
    >>> Cell("Y", "Sampled", 56.51, 56.55, error=0.03).status
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


@dataclass(frozen=True)
class Outcome:
    """A recipe's cells and figures.

    Parameters
    ----------
    cells : numbers beside the printed ones
    figures : file stem to figure
    notes : sentences on what was found
    """

    cells: tuple[Cell, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def count(self) -> dict[str, int]:
        """Return how many cells have each status."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            counts[cell.status] = counts.get(cell.status, 0) + 1
        return counts
