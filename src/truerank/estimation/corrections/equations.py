"""Normal equations of least-squares corrections, without forming the N x n matrix of the sampling law.

``ScaledEquations`` puts them into units in which they are well conditioned; ``StackedLeastSquares`` solves
ill-conditioned problems with a quadratic penalty by orthogonal factorisation instead.

Symbols of the paper: A is the law P(r | R), D the prior on the diagonal, b the metric at each global rank,
c the probability of each sampled rank under the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from truerank.core.errors import CannotEstimate
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.law import NEGLIGIBLE, TINY, Law
from truerank.estimation.tally import Contexts
from truerank.metrics.base import Metric

if TYPE_CHECKING:
    from truerank.estimation.corrections.base import MetricContexts


_CHUNK = 1 << 22  # gains or entries of the law in memory at once: 32 MB
MOST_OUTCOMES = 10_000  # of a Gram matrix: 800 MB
MOST_CANDIDATES = 30_000_000  # whose sums take about ten seconds
_HEAD = 256  # up to so many rows of the law are formed as a matrix


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """A'DA, its row sums c, and A'Db for any metric; columns of A are outcomes of a sample.

    Parameters
    ----------
    law : P(outcome | J)
    prior : (L + 1,) weights of J = 0..L

    Raises
    ------
    CannotEstimate
        When L exceeds ``MOST_CANDIDATES``.
    """

    law: Law
    prior: FloatArray

    def __post_init__(self) -> None:
        if len(self.prior) > MOST_CANDIDATES + 1:
            raise CannotEstimate(
                f"this correction sums over every rank of the pool, which must have at most "
                f"{MOST_CANDIDATES:,} items, got {len(self.prior):,}. Use smooth or mle, which bin ranks."
            )

    @cached_property
    def locations(self) -> FloatArray:
        """Where along the list each outcome points, (n_outcomes,)."""
        return self.law.locations

    @cached_property
    def limits(self) -> IntArray:
        """How many rows of the law the outcomes of each sample size need."""
        return self.law.limits_of(self.prior)

    @cached_property
    def gram(self) -> FloatArray:
        """A'DA, (n_outcomes, n_outcomes).

        Raises
        ------
        CannotEstimate
            When there are more than ``MOST_OUTCOMES``.
        """
        if len(self.locations) > MOST_OUTCOMES:
            raise CannotEstimate(
                f"this correction solves equations between all sampled ranks, of which there must be at most "
                f"{MOST_OUTCOMES:,}, got {len(self.locations):,}. Use smooth or bv(gamma=1), which need no "
                "such matrix."
            )
        return self.law.gram(self.prior, floor=self.floor)

    def add(self, values: FloatArray) -> FloatArray:
        """Return the sums over J of P(outcome | J) values[c, J], (n_columns, n_outcomes)."""
        return self.law.add(values, self.limits, floor=self.floor)

    def dot(self, dual: FloatArray) -> FloatArray:
        """Return the sum over outcomes of P(outcome | J) dual[outcome] for J = 0..L."""
        return self.law.dot(dual, self.limits, floor=self.floor)

    def block(self, start: int, stop: int) -> FloatArray:
        """Return the rows J = start..stop - 1 of the law, (stop - start, n_outcomes)."""
        return self.law.rows(start, stop, floor=self.floor)

    @property
    def nbytes(self) -> int:
        """Size in bytes once the matrix has been formed."""
        return int(self.prior.nbytes) + 8 * len(self.locations) ** 2

    @cached_property
    def floor(self) -> float:
        """Terms of a row that may be left out: none where the prior has gaps, so that tails may dominate."""
        return NEGLIGIBLE if self.prior.min() * len(self.prior) > 1e-4 else TINY

    @cached_property
    def marginal(self) -> FloatArray:
        """c, the probability of each outcome under the prior, (n_outcomes,)."""
        return self.add(self.prior[None, :]).ravel()

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield all rows of the law, some at a time."""
        size = len(self.prior)
        step = max(_CHUNK // len(self.locations), 1)
        for start in range(0, size, step):
            stop = min(start + step, size)
            yield slice(start, stop), self.block(start, stop)

    def moment(self, metric: Metric, contexts: Contexts) -> FloatArray:
        """Return A'Db of one metric in each context, (n_outcomes, n_contexts).

        Ranks beyond the metric's cut-off have one gain, so only those within it are summed one by one.
        """
        size = len(self.prior)
        head = size if metric.cutoff is None else min(size, metric.cutoff)
        result = np.empty((len(self.locations), len(contexts)))
        step = max(_CHUNK // head, 1)
        for start in range(0, len(contexts), step):
            part = contexts.take(np.arange(start, min(start + step, len(contexts))))
            gains = gain_at(metric, np.arange(head), part)
            tail: FloatArray = np.zeros((len(part), 1))
            if head < size:
                tail = gain_at(metric, np.array([head]), part)
                gains -= tail
            gains *= self.prior[:head]
            result[:, start : start + step] = (tail * self.marginal + self.add(gains)).T
        return result

    def spread(self, dual: FloatArray) -> FloatArray:
        """Return D A z, the weights over J = 0..L for a vector z over outcomes."""
        return self.dot(dual) * self.prior

    def head(self, dual: FloatArray, n_rows: int) -> FloatArray:
        """Return the first rows of D A z for the columns of a matrix z, (n_rows, n_columns)."""
        if n_rows > _HEAD:
            return np.stack([self.spread(column)[:n_rows] for column in dual.T], axis=1)
        rows: FloatArray = self.block(0, n_rows) @ dual
        rows *= self.prior[:n_rows, None]
        return rows


def gain_at(metric: Metric, n_above: IntArray, contexts: Contexts) -> FloatArray:
    """Return the gain of a target with J irrelevant items above it, (n_contexts, len(n_above))."""
    return contexts.gains(metric, n_above + 1 + contexts.n_relevant_above[:, None])


_LEAST = 1e-300  # outcomes of a smaller size are left out of the equations


@dataclass(frozen=True, eq=False)
class ScaledEquations:
    """Normal equations in units in which a size of each outcome, such as its marginal, is 1.

    Outcomes of size 0, such as those that cannot occur under the prior, are left out; they take the value of
    the outcome with the nearest location that is not.

    Parameters
    ----------
    root : (n_kept,) square roots of the sizes
    kept : (n_kept,) the outcomes that are not left out
    nearest : (n_outcomes,) for each outcome the position in ``kept`` whose value it takes
    """

    root: FloatArray
    kept: IntArray
    nearest: IntArray

    @classmethod
    def of(cls, equations: NormalEquations) -> ScaledEquations:
        """Scale by the marginal: eigenvalues lie in [0, 1]."""
        return cls.by(equations.marginal, equations.locations)

    @classmethod
    def by(cls, size: FloatArray, at: FloatArray) -> ScaledEquations:
        """Scale by a size of each outcome; ``at`` is the location of each along the list."""
        kept = np.flatnonzero(size >= _LEAST)
        order = np.argsort(at[kept], kind="stable")
        known = at[kept][order]
        right = np.clip(np.searchsorted(known, at), 0, len(kept) - 1)
        left = np.maximum(right - 1, 0)
        is_left = np.abs(known[left] - at) < np.abs(known[right] - at)
        nearest = order[np.where(is_left, left, right)]
        nearest[kept] = np.arange(len(kept))
        return cls(np.sqrt(size[kept]), kept, nearest)

    def matrix(self, gram: FloatArray) -> FloatArray:
        """Return A'DA, or another matrix over outcomes, in these units."""
        if len(self.kept) < len(gram):
            gram = gram[np.ix_(self.kept, self.kept)]
        scaled: FloatArray = gram / self.root[:, None]
        scaled /= self.root
        return scaled

    def enter(self, moments: FloatArray) -> FloatArray:
        """Return the right-hand sides in these units."""
        return moments[self.kept] / self.root[:, None]

    def leave(self, solution: FloatArray) -> FloatArray:
        """Return the solution in the original units, for all outcomes."""
        return (solution / self.root[:, None])[self.nearest]

    def gather(self, counts: FloatArray) -> FloatArray:
        """Return counts over outcomes as right-hand sides of the dual, the transpose of ``leave``."""
        total = np.zeros((len(self.kept), counts.shape[1]))
        np.add.at(total, self.nearest, counts)
        return total / self.root[:, None]

    def scatter(self, solution: FloatArray) -> FloatArray:
        """Return the solution of the dual for all outcomes: 0 for those left out."""
        full = np.zeros((len(self.nearest), solution.shape[1]))
        full[self.kept] = solution / self.root[:, None]
        return full


@dataclass(frozen=True, eq=False)
class StackedLeastSquares:
    r"""The minimum of :math:`\|D^{1/2} (A x - b)\|^2 + x^\top P x` from the rows of both terms.

    Forming A'DA squares the condition number; here the rows of :math:`D^{1/2} A` and of a root of P are
    stacked and reduced to a triangle, block by block.

    Parameters
    ----------
    equations : of the first term
    penalty : (n_outcomes, n_outcomes) P, a Laplacian: rows sum to 0, off-diagonal entries are <= 0
    scaled : which outcomes are kept, and their units
    """

    equations: NormalEquations
    penalty: FloatArray
    scaled: ScaledEquations

    def solve_metrics(self, wanted: MetricContexts) -> FloatArray:
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

    def _reduced(self, wanted: MetricContexts) -> FloatArray:
        """Return the triangle of the stacked rows, with the transformed gains to its right."""
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
    """Return an upper triangle U with U'U the Laplacian, its last row 0, by elimination without subtraction.

    Each pivot is the sum of the entries to its right, so that every entry is accurate, however small.

    Examples
    --------
    >>> laplacian_root(np.array([[4.0, -4.0], [-4.0, 4.0]])).tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    weights = -matrix
    np.fill_diagonal(weights, 0.0)
    root = np.zeros_like(weights)
    for i in range(len(weights) - 1):
        row = weights[i, i + 1 :].copy()
        pivot = float(row.sum())
        if pivot <= 0:
            continue
        root[i, i] = np.sqrt(pivot)
        root[i, i + 1 :] = -row / np.sqrt(pivot)
        weights[i + 1 :, i + 1 :] += np.outer(row, row / pivot)
    return root


def _triangle(rows: FloatArray) -> FloatArray:
    """Return the upper triangle of an orthogonal factorisation."""
    triangle: FloatArray = qr(rows, mode="r", overwrite_a=True, check_finite=False)[0]
    return triangle[: rows.shape[1]]
