"""Normal equations of a correction, without the N x n matrix of the law.

Symbols of the paper: A is the law P(r | R), D the prior on the diagonal, b the metric at each global rank,
c the probability of each sampled rank under the prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truerank.core.metric import Metric
from truerank.core.tally import Contexts
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_gram import adaptive_gram
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.gram import gram_matrix
from truerank.estimators.law import NEGLIGIBLE, TINY, Law

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
