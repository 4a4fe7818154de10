"""Normal equations of a correction, without the N x n matrix of the law.

Symbols of the paper: A is the law P(r | R), D the prior on the diagonal, b the metric at each global rank,
c the probability of each sampled rank under the prior.

A'DA from marginals: the normal matrix of n = m + 1 sampled ranks without the N x n law.

A'DA of adaptive samples, from blocks of rows that hold only the rounds a rank can get to.

Normal equations in units in which they are well conditioned.

Least squares with a quadratic penalty by orthogonal factorisation, for ill-conditioned problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.law import NEGLIGIBLE, TINY, Binomial, Hypergeometric, Law, odds_of
from truerank.estimation.law_compiled import add_split
from truerank.estimation.tally import Contexts
from truerank.metrics.base import Metric

if TYPE_CHECKING:
    from truerank.estimation.corrections.base import Wanted


_BLOCK = 1 << 17  # entries of the law a thread holds at once: 1 MB


def gram_matrix(law: Law, prior: FloatArray, floor: float) -> FloatArray:
    """Return A'DA by the cheapest of the ways below, (m + 1, m + 1).

    Parameters
    ----------
    law : P(j | J)
    prior : (L + 1,) weights of J = 0..L
    floor : terms of a row below this, relative to its largest, are left out
    """
    if isinstance(law, Binomial):
        return hankel_gram(law, prior, floor)
    if isinstance(law, Hypergeometric) and is_overlap_cheaper(law):
        return overlap_gram(law, prior, floor)
    return blocked_gram(law, prior, floor)


def hankel_gram(law: Binomial, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA with replacement, in O(N sqrt(m) + m^1.5) time and O(m^2) memory.

    Two samples of size m are one of size 2m that was split, so with c2 the marginal of 2m draws

    .. math:: (A'DA)_{rs} = \binom{m}{r} \binom{m}{s} \Big/ \binom{2m}{r+s} \; c2_{r+s}

    for r, s counted from 0: a Hankel matrix, scaled. The factor is itself hypergeometric: which r of r + s
    items above the target fall into the first half.
    """
    m = law.n_negatives
    double = Binomial(law.n_candidates, 2 * m).add(prior[None, :], floor=floor)
    gram = np.zeros((m + 1, m + 1))
    add_split(double, odds_of(m), floor, gram)
    return gram


def overlap_gram(law: Hypergeometric, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA without replacement from marginals alone.

    Two independent samples of size m share o items, o being hypergeometric itself; together they are one
    sample of size 2m - o. Of its t items above the target v are shared ones and the others fall into the two
    halves at random:

    .. math:: (A'DA)_{rs} = \sum_o P(o) \sum_v c_{2m-o}[t] \; P(v \mid t, o) \,
              \binom{k}{r-v} \binom{k}{s-v} \Big/ \binom{2k}{t-v}, \qquad k = m - o, \; t = r + s - v.

    Marginals of smaller samples follow from the largest by leaving out one item at a time. The cost grows
    with the number of probable overlaps, so this pays where m^2 is not much more than L.
    """
    m, size = law.n_negatives, law.n_candidates
    chance = law.pmf(m)
    overlaps = np.flatnonzero(chance > floor * chance.max())
    largest = min(2 * m, size)
    counts = Hypergeometric(size, largest).add(prior[None, :], floor=floor)[0]
    marginals = {}
    for union in range(largest, 2 * m - int(overlaps[-1]) - 1, -1):
        marginals[union] = counts
        t = np.arange(union)
        counts = (counts[:-1] * (union - t) + counts[1:] * (t + 1)) / union

    def part(o: int) -> FloatArray:
        joint = chance[o] * _joint(marginals[2 * m - o], o, m - o)
        gram = np.zeros((m + 1, m + 1))
        add_split(joint, odds_of(m - o), floor, gram)
        return gram

    total = np.zeros((m + 1, m + 1))
    for added in ordered_map(part, overlaps.tolist(), n_threads=available_threads()):
        total += added
    return total


def _joint(marginal: FloatArray, o: int, k: int) -> FloatArray:
    """Return the probability of v shared and t - v other items above, (o + 1, 2k + 1), from that of t."""
    if o == 0:
        return marginal[None, :]
    shared = Hypergeometric(2 * k + o, o).pmf(np.arange(2 * k + o + 1))
    return np.stack([marginal[v : v + 2 * k + 1] * shared[v : v + 2 * k + 1, v] for v in range(o + 1)])


def blocked_gram(law: Law, prior: FloatArray, floor: float) -> FloatArray:
    """Return A'DA under any law from blocks of rows; O(N w^2) with w the terms of a row, O(m^2) memory."""
    m = law.n_negatives
    step = max(_BLOCK // (m + 1), 1)

    def part(start: int) -> tuple[slice, FloatArray]:
        weights = prior[start : start + step]
        rows = law.rows(start, start + len(weights), floor=floor)
        # both ends of what a row holds only grow with J
        columns = slice(int(np.argmax(rows[0] > 0)), m + 1 - int(np.argmax(rows[-1, ::-1] > 0)))
        root = np.ascontiguousarray(rows[:, columns]) * np.sqrt(weights)[:, None]
        return columns, root.T @ root

    gram = np.zeros((m + 1, m + 1))
    with single_threaded_blas():
        for columns, added in ordered_map(part, range(0, len(prior), step), n_threads=available_threads()):
            gram[columns, columns] += added
    return gram


def is_overlap_cheaper(law: Hypergeometric) -> bool:
    """Whether the overlaps of two samples are few against the rows of the law."""
    m, size = law.n_negatives, law.n_candidates
    width = min(m + 1.0, 8 * np.sqrt(m))
    mean = m * m / size
    n_overlaps = min(m + 1.0, 16 + 10 * np.sqrt(mean))
    return bool(n_overlaps * (mean + n_overlaps) * m * width * 13 < size * width * width)


def adaptive_gram(law: AdaptiveLaw, prior: FloatArray, limits: IntArray, floor: float) -> FloatArray:
    """Return A'DA, (n_outcomes, n_outcomes).

    Rows far down the list have entries in the first round alone, and there in a window of j; the full width
    is needed near the top only. Memory O(n_outcomes^2), time O(N w^2) with w the entries of a row.

    Parameters
    ----------
    law : P(m, j | J)
    prior : (L + 1,) weights of J = 0..L
    limits : rows that each round goes through
    floor : terms of the first round below this, relative to the largest of their row, are left out
    """

    def part(rows: tuple[int, int, int]) -> tuple[slice, FloatArray]:
        start, stop, n_rounds = rows
        weights = prior[start:stop]
        above = start + np.flatnonzero(weights)
        dense = law.fill(above, n_rounds, floor)
        used = np.flatnonzero(dense.any(axis=0))
        if len(used) == 0:
            return slice(0, 0), np.zeros((0, 0))
        columns = slice(int(used[0]), int(used[-1]) + 1)
        root = dense[:, columns] * np.sqrt(prior[above])[:, None]
        return columns, root.T @ root

    gram = np.zeros((law.n_outcomes, law.n_outcomes))
    with single_threaded_blas():
        for columns, added in ordered_map(part, _pieces(law, limits), n_threads=available_threads()):
            gram[columns, columns] += added
    return gram


def _pieces(law: AdaptiveLaw, limits: IntArray) -> list[tuple[int, int, int]]:
    """Return (first row, one past the last, rounds they get to), small enough to be held."""
    pieces = []
    ends = [*limits[::-1].tolist()]
    start = 0
    for n_rounds, end in zip(range(len(limits), 0, -1), ends, strict=True):
        step = max(_BLOCK // max(int(law.offsets[n_rounds]), 1), 1)
        while start < end:
            stop = min(start + step, end)
            pieces.append((start, stop, n_rounds))
            start = stop
    return pieces


_CHUNK = 1 << 22  # gains or entries of the law held at once: 32 MB
_HEAD = 256  # up to so many rows are held as a matrix


@dataclass(frozen=True, eq=False)
class NormalEquations(ABC):
    """A'DA, its row sums c, and A'Db for any metric; columns of A are outcomes of a sample.

    Parameters
    ----------
    law : P(outcome | J)
    prior : (L + 1,) weights of J = 0..L
    """

    law: Law | AdaptiveLaw
    prior: FloatArray

    @property
    @abstractmethod
    def locations(self) -> FloatArray:
        """Where along the list each outcome points, (n_outcomes,)."""

    @cached_property
    @abstractmethod
    def gram(self) -> FloatArray:
        """A'DA, (n_outcomes, n_outcomes)."""

    @abstractmethod
    def add(self, values: FloatArray) -> FloatArray:
        """Return the sums over J of P(outcome | J) values[c, J], (n_columns, n_outcomes)."""

    @abstractmethod
    def dot(self, dual: FloatArray) -> FloatArray:
        """Return the sum over outcomes of P(outcome | J) dual[outcome] for J = 0..L."""

    @abstractmethod
    def block(self, start: int, stop: int) -> FloatArray:
        """Return the rows J = start..stop - 1 of the law, (stop - start, n_outcomes)."""

    @property
    def nbytes(self) -> int:
        """Bytes held once the matrix has been formed."""
        return int(self.prior.nbytes) + 8 * len(self.locations) ** 2

    @cached_property
    def floor(self) -> float:
        """What may be left out of a row: where the prior has gaps, a far tail may be all there is."""
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

        Ranks beyond the metric's cut-off share one gain, so only those within it are gone through.
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
        """Return D A z, the weights over J = 0..L that a vector z over outcomes stands for."""
        return self.dot(dual) * self.prior

    def head(self, dual: FloatArray, n_rows: int) -> FloatArray:
        """Return the first rows of D A z for the columns of a matrix z, (n_rows, n_columns)."""
        if n_rows > _HEAD:
            return np.stack([self.spread(column)[:n_rows] for column in dual.T], axis=1)
        found: FloatArray = self.block(0, n_rows) @ dual
        found *= self.prior[:n_rows, None]
        return found


@dataclass(frozen=True, eq=False)
class FixedEquations(NormalEquations):
    """Those of samples of a fixed size: outcomes are j = 0..m."""

    law: Law

    @property
    def locations(self) -> FloatArray:
        """Return j."""
        return np.arange(self.law.n_negatives + 1.0)

    @cached_property
    def gram(self) -> FloatArray:
        """A'DA, (m + 1, m + 1)."""
        return gram_matrix(self.law, self.prior, self.floor)

    def add(self, values: FloatArray) -> FloatArray:
        """Return the sums over J of P(j | J) values[c, J]."""
        return self.law.add(values, floor=self.floor)

    def dot(self, dual: FloatArray) -> FloatArray:
        """Return the sum over j of P(j | J) dual[j]."""
        return self.law.dot(dual, floor=self.floor)

    def block(self, start: int, stop: int) -> FloatArray:
        """Return some rows of the law."""
        return self.law.rows(start, stop, floor=self.floor)


@dataclass(frozen=True, eq=False)
class AdaptiveEquations(NormalEquations):
    """Those of samples that grow by a stopping rule: outcomes are pairs (m, j)."""

    law: AdaptiveLaw

    @property
    def locations(self) -> FloatArray:
        """Return j/m."""
        found: FloatArray = self.law.n_above / self.law.n_negatives
        return found

    @cached_property
    def limits(self) -> IntArray:
        """How many rows each round goes through."""
        return self.law.limits_of(self.prior)

    @cached_property
    def gram(self) -> FloatArray:
        """A'DA, (n_outcomes, n_outcomes)."""
        return adaptive_gram(self.law, self.prior, self.limits, self.floor)

    def add(self, values: FloatArray) -> FloatArray:
        """Return the sums over J of P(outcome | J) values[c, J]."""
        return self.law.add(values, self.limits, self.floor)

    def dot(self, dual: FloatArray) -> FloatArray:
        """Return the sum over outcomes of P(outcome | J) dual[outcome]."""
        return self.law.dot(dual, self.limits, self.floor)

    def block(self, start: int, stop: int) -> FloatArray:
        """Return some rows of the law."""
        return self.law.fill(np.arange(start, stop), len(self.law.rounds), self.floor)


def make_equations(law: Law | AdaptiveLaw, prior: FloatArray) -> NormalEquations:
    """Return the normal equations of a law under a prior over J."""
    if isinstance(law, AdaptiveLaw):
        return AdaptiveEquations(law, prior)
    return FixedEquations(law, prior)


def gain_at(metric: Metric, n_above: IntArray, contexts: Contexts) -> FloatArray:
    """Return the gain of a target with J irrelevant items above it, (n_contexts, len(n_above))."""
    above, relevant, pool = (
        column[:, None] for column in (contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
    )
    rank = n_above + 1 + above
    return np.array(np.broadcast_to(metric.gain(rank, above, relevant, pool), rank.shape), dtype=np.float64)


_LEAST = 1e-300  # outcomes of a smaller size are left out of the equations


@dataclass(frozen=True, eq=False)
class Scaled:
    """Normal equations in units in which a size of each outcome, such as its marginal, is 1.

    Outcomes of size 0, such as those that cannot occur under the prior, are left out; they take the value of
    one that is not, the one that points nearest to where they point.

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
    def of(cls, equations: NormalEquations) -> Scaled:
        """Scale by the marginal: eigenvalues lie in [0, 1]."""
        return cls.by(equations.marginal, equations.locations)

    @classmethod
    def by(cls, size: FloatArray, at: FloatArray) -> Scaled:
        """Scale by a size of each outcome; ``at`` says where each points."""
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
        """Return counts over outcomes as right-hand sides of the dual: what ``leave`` copies adds up."""
        total = np.zeros((len(self.kept), counts.shape[1]))
        np.add.at(total, self.nearest, counts)
        return total / self.root[:, None]

    def scatter(self, solution: FloatArray) -> FloatArray:
        """Return the solution of the dual for all outcomes: 0 for those left out."""
        full = np.zeros((len(self.nearest), solution.shape[1]))
        full[self.kept] = solution / self.root[:, None]
        return full


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
