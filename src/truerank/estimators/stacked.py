"""Least squares with a quadratic penalty by orthogonal factorisation, for ill-conditioned problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from truerank.core.types import FloatArray
from truerank.estimators.normal import NormalEquations, gain_at
from truerank.estimators.scaled import Scaled

if TYPE_CHECKING:
    from truerank.estimators.correction import Wanted


@dataclass(frozen=True, eq=False)
class Stacked:
    r"""The minimum of :math:`\|D^{1/2} (A x - b)\|^2 + x^\top P x` from the rows of both terms.

    Forming A'DA squares the condition number; here the rows of :math:`D^{1/2} A` and of a root of P stand
    below each other and are reduced to a triangle, some at a time.

    Parameters
    ----------
    equations : of the first term
    penalty : (n_outcomes, n_outcomes) P, a Laplacian: rows sum to 0, off-diagonal entries are <= 0
    scaled : which outcomes are kept, and their units
    """

    equations: NormalEquations
    penalty: FloatArray
    scaled: Scaled

    def solve_metrics(self, wanted: Wanted) -> FloatArray:
        """Return x of each metric in each of its contexts in scaled units, (n_kept, n_columns)."""
        n = len(self.scaled.kept)
        triangle = self._reduced(wanted)
        solved: FloatArray = solve_triangular(triangle[:, :n], triangle[:, n:], check_finite=False)
        return solved

    def solve(self, columns: FloatArray) -> FloatArray:
        """Return the solution for scaled right-hand sides of the normal equations, by two triangles."""
        triangle = self._reduced([])
        half = solve_triangular(triangle, columns, trans="T", check_finite=False)
        solved: FloatArray = solve_triangular(triangle, half, check_finite=False)
        return solved

    def _reduced(self, wanted: Wanted) -> FloatArray:
        """Return the triangle of the stacked rows, with what becomes of the gains to its right."""
        kept, root = self.scaled.kept, self.scaled.root
        n_columns = sum(len(contexts) for _, contexts in wanted)
        first = laplacian_root(self.penalty[np.ix_(kept, kept)]) / root
        triangle = _triangle(np.concatenate([first, np.zeros((len(kept), n_columns))], axis=1))
        for rows, law in self.equations.blocks():
            weight = np.sqrt(self.equations.prior[rows])[:, None]
            above = np.arange(rows.start, rows.stop)
            gains = [gain_at(metric, above, contexts).T for metric, contexts in wanted]
            block = np.concatenate([law[:, kept] / root, *gains], axis=1) * weight
            triangle = _triangle(np.concatenate([triangle, block]))
        return triangle[: len(kept)]


def laplacian(weights: FloatArray) -> FloatArray:
    """Return the matrix with off-diagonal entries -weights whose rows sum to 0, without cancellation.

    Examples
    --------
    >>> laplacian(np.array([[9.0, 1.0], [1.0, 9.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    result = -weights
    np.fill_diagonal(result, 0.0)
    np.fill_diagonal(result, -result.sum(axis=1))
    return result


def laplacian_root(matrix: FloatArray) -> FloatArray:
    """Return an upper triangle U with U'U the Laplacian, its last row 0, by elimination that never subtracts.

    Each pivot is the sum of what stands to its right, so that every entry is accurate, however small.

    Examples
    --------
    >>> laplacian_root(np.array([[4.0, -4.0], [-4.0, 4.0]])).tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    weights = -matrix
    np.fill_diagonal(weights, 0.0)
    root = np.zeros_like(weights)
    for place in range(len(weights) - 1):
        row = weights[place, place + 1 :].copy()
        pivot = float(row.sum())
        if pivot <= 0:
            continue
        root[place, place] = np.sqrt(pivot)
        root[place, place + 1 :] = -row / np.sqrt(pivot)
        weights[place + 1 :, place + 1 :] += np.outer(row, row / pivot)
    return root


def _triangle(rows: FloatArray) -> FloatArray:
    """Return the upper triangle of an orthogonal factorisation."""
    found: FloatArray = qr(rows, mode="r", overwrite_a=True, check_finite=False)[0]
    return found[: rows.shape[1]]
