"""The outcome of a recipe: our numbers next to the printed ones, whether they agree, and figures.

A cell is judged by its z-score, the difference in standard errors. A table is judged by all cells: some of
many are far off by chance, and many small differences of one sign are no chance. So its status follows the
chi-square of the z-scores, the signs of the differences, and the largest z-score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidData

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: a cell agrees with print up to this many standard errors
WIDTH = 2.0
#: a table whose joint p-value is smaller does not agree
LEVEL = 0.01
WITHIN, BEYOND = f"within {WIDTH:g} standard errors", f"beyond {WIDTH:g} standard errors"
#: smaller z-scores are rounding errors of the computer and have no sign
_NO_SIGN = 1e-6
#: status of cells and tables of a run that is too short to tell
NO_EVIDENCE = "no evidence"
#: status of a table whose joint test says nothing but of which too many cells are far off
UNDECIDED = "undecided"
#: status of a recipe that has no number to compare
UNCOMPARED = "no printed numbers"


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
    reach : the largest difference that the note accounts for; None where the recipe gives the note only to
        differences that it accounts for

    Examples
    --------
    >>> PaperNumber("Y", "Recall", 8.84, 8.8411).status, PaperNumber("Y", "Recall", 8.84, 8.85).status
    ('matches', 'differs')
    >>> near = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
    >>> near.status, round(near.z, 2)
    ('within 2 standard errors', 1.33)
    """

    row: str
    column: str
    printed: float | None
    value: float
    error: float = 0.0
    digits: int = 2
    note: str = ""
    reach: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus printed."""
        return None if self.printed is None else self.value - self.printed

    @property
    def z(self) -> float | None:
        """The difference in standard errors, rounding of the printed number included; None without error."""
        if self.difference is None or self.error == 0:
            return None
        rounding = 10.0**-self.digits / math.sqrt(12)
        return self.difference / math.hypot(self.error, rounding)

    @property
    def status(self) -> str:
        """``matches``, ``within`` or ``beyond 2 standard errors``, ``explained``, ``differs`` or ``new``.

        A number with an error lies within or beyond; one without matches to the digit or differs.
        """
        if self.difference is None:
            return "new"
        if abs(self.difference) <= 0.5 * 10.0**-self.digits * (1 + 1e-9):
            return "matches"
        if self.z is not None and abs(self.z) <= WIDTH:
            return WITHIN
        if self.is_accounted_for:
            return "explained"
        return "differs" if self.z is None else BEYOND

    @property
    def is_accounted_for(self) -> bool:
        """Whether the note gives a reason that is large enough for the difference."""
        if not self.note or self.difference is None:
            return False
        return self.reach is None or abs(self.difference) <= self.reach

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "row": self.row,
            "column": self.column,
            "printed": self.printed,
            "value": self.value,
            "difference": self.difference,
            "error": self.error,
            "z": self.z,
            "status": self.status,
            "note": self.note,
            "reach": self.reach,
        }


@dataclass(frozen=True)
class IndependentCells:
    """How many independent cells tell as much as correlated ones, for each of two joint tests.

    Parameters
    ----------
    n_cells : cells of the table that have an error
    chi_square : for the sum of squares of z
    signs : for the number of differences below print
    """

    n_cells: int
    chi_square: float
    signs: float


def independent_cells(correlations: Iterable[ArrayLike]) -> IndependentCells:
    r"""Return how many independent cells tell as much as those of a table.

    For normal z-scores with correlations r, their sum of squares has the variance of
    :math:`n^2 / \sum r_{ij}^2` independent ones, and the sum of their signs that of
    :math:`n^2 / \sum \frac{2}{\pi} \arcsin r_{ij}`.

    Parameters
    ----------
    correlations : one matrix for each block of cells; different blocks are independent of each other

    Raises
    ------
    InvalidData
        When there is no matrix, or one that is not square.

    Examples
    --------
    >>> found = independent_cells([np.eye(3), np.ones((2, 2))])  # 25/7
    >>> round(found.chi_square, 3), round(found.signs, 3)
    (3.571, 3.571)
    """
    n, squares, signs = 0, 0.0, 0.0
    for block in correlations:
        matrix = np.clip(np.asarray(block, dtype=np.float64), -1.0, 1.0)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidData(f"correlations must be square matrices, got shape {matrix.shape}.")
        n += len(matrix)
        squares += float((matrix**2).sum())
        signs += max(float(np.arcsin(matrix).sum() * 2 / np.pi), 1.0)
    if n == 0:
        raise InvalidData("correlations must hold at least one cell, got none.")
    return IndependentCells(n, n**2 / squares, min(n**2 / signs, float(n)))


@dataclass(frozen=True)
class JointTest:
    """Whether all differences of a table together can be chance.

    Parameters
    ----------
    n_cells : cells that have an error
    chi_square : sum of squares of their z-scores
    degrees : its degrees of freedom: the cells, or fewer where they are known to be correlated
    below, above : how many of our numbers are smaller and larger than print
    p_chi_square, p_signs, p_largest : probabilities of as large a chi-square, as uneven signs, and as large a
        z-score as the largest one, under chance alone

    Notes
    -----
    Cells of one sample are correlated. Where a recipe knows how, chi-square and the signs are scaled to as
    many independent cells (first two moments); otherwise cells count as independent and the first two
    probabilities are approximate. That of the largest z-score holds whatever the correlation.
    """

    n_cells: int
    chi_square: float
    degrees: float
    below: int
    above: int
    p_chi_square: float
    p_signs: float
    p_largest: float

    @property
    def p(self) -> float:
        """The smallest of the three probabilities, times three for the choice."""
        return min(1.0, 3 * min(self.p_chi_square, self.p_signs, self.p_largest))

    @property
    def sentence(self) -> str:
        """What the three tests say."""
        degrees = f"{self.degrees:.3g} degrees of freedom"
        return (
            f"Joint {equals_p(self.p)}, three times the smallest of: chi-square {self.chi_square:.1f} of "
            f"{self.n_cells} cells on {degrees}, {equals_p(self.p_chi_square)}; {self.below} below and "
            f"{self.above} above print, {equals_p(self.p_signs)}; the largest |z|, "
            f"{equals_p(self.p_largest)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        names = ("n_cells", "chi_square", "degrees", "below", "above", "p_chi_square", "p_signs", "p_largest")
        return {**{name: getattr(self, name) for name in names}, "p": self.p}


def joint_test(z_scores: Sequence[float], independent: IndependentCells | None = None) -> JointTest | None:
    """Return the joint test of some z-scores, None for none.

    Parameters
    ----------
    z_scores : of the cells; zeros have no sign
    independent : where it is known how the cells are correlated

    Examples
    --------
    >>> round(joint_test([-0.5] * 15 + [0.5]).p_signs, 5)
    0.00052
    >>> joint_test([0.5] * 20).p_chi_square > 0.99, joint_test([0.3, -2.0, 5.5]).p < 1e-6
    (True, True)
    """
    from scipy.special import bdtr, gammaincc, ndtr

    if not z_scores:
        return None
    z = np.asarray(z_scores, dtype=np.float64)
    below, above = int((z < -_NO_SIGN).sum()), int((z > _NO_SIGN).sum())
    chi_square = float((z**2).sum())
    degrees, signs = float(len(z)), float(below + above)
    if independent is not None:
        degrees = max(1.0, degrees * independent.chi_square / independent.n_cells)
        signs = max(1.0, signs * independent.signs / independent.n_cells)
    p_chi_square = float(gammaincc(degrees / 2, chi_square * degrees / len(z) / 2))
    if below + above == 0:
        p_signs = 1.0
    elif signs >= below + above:
        p_signs = min(1.0, 2 * float(bdtr(min(below, above), below + above, 0.5)))
    else:
        uneven = abs(above - below) / (above + below)
        p_signs = 2 * float(ndtr(-uneven * math.sqrt(signs)))
    largest = min(1.0, len(z) * 2 * float(ndtr(-np.abs(z).max())))
    return JointTest(len(z), chi_square, degrees, below, above, p_chi_square, p_signs, largest)


def equals_p(p: float) -> str:
    """Return ``p = ...`` with two digits; tiny ones are called so.

    Examples
    --------
    >>> equals_p(0.4123), equals_p(0.00051), equals_p(3e-40), equals_p(1.0)
    ('p = 0.41', 'p = 0.00051', 'p < 1e-12', 'p = 1')
    """
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"


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
    short : what a run has too little of to tell that numbers agree, such as ``10 repeats``; '' for enough
    independent : as how many independent cells those with errors count; None takes all as independent
    """

    cells: tuple[PaperNumber, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    without: tuple[str, ...] = ()
    repeats: int | None = None
    short: str = ""
    independent: IndependentCells | None = None

    def cell_status(self, cell: PaperNumber) -> str:
        """Return the status of a cell; in a short run random numbers never agree."""
        is_agreeing = cell.status in ("matches", WITHIN)
        return NO_EVIDENCE if self.short and cell.z is not None and is_agreeing else cell.status

    def count(self) -> dict[str, int]:
        """Return how many cells have each status."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            status = self.cell_status(cell)
            counts[status] = counts.get(status, 0) + 1
        return counts

    def cells_to_dicts(self) -> list[dict[str, Any]]:
        """Return plain dictionaries of the cells for JSON."""
        return [{**cell.to_dict(), "status": self.cell_status(cell)} for cell in self.cells]

    @property
    def joint(self) -> JointTest | None:
        """The joint test of all cells that have an error; None for none."""
        return self._joint(self.cells)

    def _joint(self, cells: Iterable[PaperNumber]) -> JointTest | None:
        return joint_test([cell.z for cell in cells if cell.z is not None], self.independent)

    @property
    def status(self) -> str:
        """``matches``, ``agrees``, ``undecided``, ``no evidence``, ``explained``, ``differs`` or unprinted.

        A table differs where a number without error does, or where the joint test of all cells that are not
        explained says so; it is explained where reasons account for every such difference. It is undecided
        where more cells lie beyond 2 standard errors than chance puts there if they are independent. A run
        that is too short differs or is no evidence, so that fewer repetitions never improve a status.

        Examples
        --------
        >>> near = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
        >>> cells = (near, PaperNumber("Y", "Recall", 8.84, 8.84))
        >>> RecipeOutcome(cells).status, RecipeOutcome(cells, short="10 repeats").status
        ('agrees', 'no evidence')
        >>> low = tuple(PaperNumber(str(n), "Psi", 0.40, 0.37, error=0.03) for n in range(16))
        >>> RecipeOutcome(low).status, RecipeOutcome().status
        ('differs', 'no printed numbers')
        """
        statuses = {cell.status for cell in self.cells if cell.printed is not None}
        if not statuses:
            return UNCOMPARED
        exact = {cell.status for cell in self.cells if cell.printed is not None and cell.z is None}
        rest = self._joint(cell for cell in self.cells if not cell.is_accounted_for)
        if "differs" in statuses or (rest is not None and rest.p < LEVEL):
            return "differs"
        joint = self.joint
        if self.short and joint is not None:
            return NO_EVIDENCE
        if "explained" in exact or (joint is not None and joint.p < LEVEL):
            return "explained"
        if self._has_many_beyond():
            return UNDECIDED
        return "matches" if statuses == {"matches"} else "agrees"

    def _has_many_beyond(self) -> bool:
        """Whether more cells lie beyond the width than all but 1 % of tables of independent cells have."""
        from scipy.special import bdtrc, ndtr

        z_scores = [abs(cell.z) for cell in self.cells if cell.z is not None and not cell.is_accounted_for]
        beyond = sum(z > WIDTH for z in z_scores)
        return beyond > 0 and float(bdtrc(beyond - 1, len(z_scores), 2 * ndtr(-WIDTH))) < LEVEL

    @property
    def verdict(self) -> str:
        """The status in words, with the joint test and the reason that the recipe states for differences.

        Examples
        --------
        >>> cells = (PaperNumber("X", "AUC", 89.13, 89.2), PaperNumber("Y", "AUC", 85.33, 85.33))
        >>> RecipeOutcome(cells, reason="the start of X is not given").verdict
        'differs because the start of X is not given (1 of 2 cells)'
        >>> near = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
        >>> RecipeOutcome((near,)).verdict, RecipeOutcome((near,), short="10 repeats").verdict
        ('agrees (1 of 1 cells, joint p = 0.55)', '10 repeats, no evidence')
        """
        status = self.status
        if status == NO_EVIDENCE:
            return f"{self.short}, {NO_EVIDENCE}"
        if status not in ("agrees", UNDECIDED, "explained", "differs"):
            return status
        compared = [cell for cell in self.cells if cell.printed is not None]
        agreeing = sum(cell.status in ("matches", WITHIN) for cell in compared)
        joint = "" if self.joint is None else f", joint {equals_p(self.joint.p)}"
        if status in ("agrees", UNDECIDED):
            return f"{status} ({agreeing} of {len(compared)} cells{joint})"
        cells = f"({len(compared) - agreeing} of {len(compared)} cells{joint})"
        notes = dict.fromkeys(cell.note for cell in compared if cell.status == "explained")
        reason = self.reason or ("; ".join(notes) if status == "explained" else "")
        return f"differs because {reason} {cells}" if reason else f"differs, and it is not known why {cells}"
