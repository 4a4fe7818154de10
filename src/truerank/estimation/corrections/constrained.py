"""CLS: least squares among corrected values that do not increase with the sampled rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from truerank.core.errors import InvalidParameter, NotConverged
from truerank.core.plugin import Source
from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.adaptive_law import check_fixed
from truerank.estimation.corrections.base import Correction
from truerank.estimation.corrections.equations import NormalEquations
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True)
class ConstrainedLeastSquares(Correction):
    r"""Least squares with x[r] >= x[r + 1]: a better sampled rank never counts less.

    .. math:: x = \arg\min_{x_1 \ge x_2 \ge \dots} \sum_R P(R) \big( E[x(r) \mid R] - M(R) \big)^2

    The result is not linear in the metric, so it has no weights over ranks. Without ``positive`` no sign is
    imposed: recall ends in a small negative plateau.

    Parameters
    ----------
    prior : weights of global ranks in the error
    clip : whether negative values are replaced by 0 afterwards, which is no longer a least-squares solution
    positive : whether x >= 0 is a constraint of the fit: the least-squares solution among values that are
        neither negative nor increasing

    Raises
    ------
    InvalidParameter
        When ``clip`` and ``positive`` are both true.

    Notes
    -----
    Section 5.2 prints the opposite inequality; Section 6.3 the right one. The paper states no sign, but its
    Table 3 was probably made with ``positive=true``: with samples without replacement and one pool size for
    all users, that variant agrees with the printed recall, NDCG and AP, and neither the unconstrained sign
    nor ``clip`` does. This was inferred from the printed numbers; ``truerank paper run kr20.laws`` computes
    the comparison.

    Not an isotonic regression, because the law is not diagonal: pooling adjacent violators does not solve it.
    With x[r] = t + d[r] + d[r + 1] + ... and d >= 0 it is a non-negative least-squares problem in the steps d
    and, with ``positive``, in the last value t, which an active set on A'DA solves exactly.
    """

    clip: bool = False
    positive: bool = False
    key: ClassVar[str] = "cls"
    source: ClassVar[Source] = Source("krichene2020", "Sec. 5.2")
    is_linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip and self.positive:
            raise InvalidParameter(
                "clip and positive must not both be true: positive keeps values from becoming negative in "
                "the fit, clip afterwards. Choose one of them."
            )

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        check_fixed(self, tally, "pairs of a sample size and a sampled rank have no natural order")
        return super().correct_sample(tally, metrics)

    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x, column by column."""
        gram = equations.gram
        steps = np.cumsum(np.cumsum(gram, axis=0), axis=1)
        columns = [_column(gram, steps, column, self.positive) for column in moments.T]
        x = np.stack(columns, axis=1)
        return np.maximum(x, 0.0) if self.clip else x


def _column(gram: FloatArray, steps: FloatArray, moment: FloatArray, positive: bool) -> FloatArray:
    """Return x of one metric: a decreasing line where that leaves no residual, else by the active set."""
    # j m^-1 L estimates J without bias, so a metric that is affine in the rank, such as AUC, has an exact
    # solution that is affine in j; the equations alone are too singular to find it
    basis = np.stack([np.ones(len(moment)), np.arange(len(moment)) / len(moment)], axis=1)
    level, slope = np.linalg.solve(basis.T @ gram @ basis, basis.T @ moment)
    line: FloatArray = level + min(float(slope), 0.0) * basis[:, 1]
    slack = np.abs(np.cumsum(moment - gram @ line)).max()
    is_allowed = not positive or line[-1] >= -1e-12 * np.abs(line).max()
    if is_allowed and slack <= 1e-13 * np.abs(np.cumsum(moment)).max():
        return np.maximum(line, 0.0) if positive else line
    solution = nonnegative_solve(steps, np.cumsum(moment), is_last_free=not positive)
    falling: FloatArray = np.cumsum(solution[::-1])[::-1]  # the sum of all steps at or below r
    return falling


def nonnegative_solve(gram: FloatArray, moment: FloatArray, *, is_last_free: bool = True) -> FloatArray:
    """Return the minimum of d'Gd/2 - h'd over d >= 0; the last entry may have any sign if it is free.

    The active-set method of Lawson and Hanson on the Gram matrix: O(k^3) per step with k steps in use.

    Examples
    --------
    >>> nonnegative_solve(np.eye(3), np.array([1.0, -1.0, -2.0])).tolist()
    [1.0, 0.0, -2.0]
    >>> nonnegative_solve(np.eye(3), np.array([1.0, -1.0, -2.0]), is_last_free=False).tolist()
    [1.0, 0.0, 0.0]
    """
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    matrix = gram * scale * scale[:, None]
    goal = moment * scale
    size = len(goal)
    tolerance = 1e-13 * max(np.abs(goal).max(), 1e-300)
    is_bounded = np.arange(size) < (size - 1 if is_last_free else size)
    is_used = ~is_bounded
    is_spent = np.zeros(size, dtype=np.bool_)  # entries whose slope is rounding error alone
    solution = _solve_used(matrix, goal, is_used)
    for _ in range(10 * size):
        slope = goal - matrix @ solution
        slope[is_used | is_spent] = -np.inf
        entering = int(np.argmax(slope))
        if slope[entering] <= tolerance:
            return solution * scale
        is_used[entering] = True
        wanted = _solve_used(matrix, goal, is_used)
        if wanted[entering] <= 0:
            is_used[entering], is_spent[entering] = False, True
            continue
        is_spent[:] = False
        while (is_falling := is_used & (wanted <= 0) & is_bounded).any():
            rows = np.flatnonzero(is_falling)
            length = solution[rows] / (solution[rows] - wanted[rows])
            solution = solution + length.min() * (wanted - solution)
            is_used[rows[length <= length.min()]] = False
            solution[~is_used] = 0.0
            wanted = _solve_used(matrix, goal, is_used)
        solution = wanted
    raise NotConverged(
        f"the active-set method did not converge within {10 * size} steps. Use estimator 'bv'.",
        solution * scale,
    )


def _solve_used(matrix: FloatArray, goal: FloatArray, is_used: BoolArray) -> FloatArray:
    """Return the unconstrained minimum over the entries in use, 0 elsewhere."""
    rows = np.flatnonzero(is_used)
    solution = np.zeros(len(goal))
    if len(rows) == 0:
        return solution
    part = matrix[np.ix_(rows, rows)]
    try:
        solution[rows] = cho_solve(cho_factor(part, check_finite=False), goal[rows], check_finite=False)
    except LinAlgError:
        solution[rows] = lstsq(part, goal[rows], check_finite=False)[0]
    return solution
