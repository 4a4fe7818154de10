"""Normal equations of a correction, without the N x n matrix of the law.

Symbols of the paper: A is the law P(r | R), D the prior on the diagonal, b the metric at each global rank,
c the probability of each sampled rank under the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truerank.core.metric import Metric
from truerank.core.tally import Contexts
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.gram import gram_matrix
from truerank.estimators.law import NEGLIGIBLE, TINY, Law

_CHUNK = 1 << 22  # gains held at once: 32 MB


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """A'DA, its row sums c, and A'Db for any metric.

    Parameters
    ----------
    law : P(j | J)
    prior : (L + 1,) weights of J = 0..L
    """

    law: Law
    prior: FloatArray

    @property
    def nbytes(self) -> int:
        """Bytes held once the matrix has been formed."""
        return int(self.prior.nbytes) + 8 * (self.law.n_negatives + 1) ** 2

    @cached_property
    def floor(self) -> float:
        """What may be left out of a row: where the prior has gaps, a far tail may be all there is."""
        return NEGLIGIBLE if self.prior.min() * len(self.prior) > 1e-4 else TINY

    @cached_property
    def gram(self) -> FloatArray:
        """A'DA, (m + 1, m + 1)."""
        return gram_matrix(self.law, self.prior, self.floor)

    @cached_property
    def marginal(self) -> FloatArray:
        """c, the probability of each j under the prior, (m + 1,)."""
        return self.law.add(self.prior[None, :], floor=self.floor).ravel()

    def moment(self, metric: Metric, contexts: Contexts) -> FloatArray:
        """Return A'Db of one metric in each context, (m + 1, n_contexts).

        Ranks beyond the metric's cut-off share one gain, so only those within it are gone through.
        """
        size = self.law.n_candidates + 1
        head = size if metric.cutoff is None else min(size, metric.cutoff)
        result = np.empty((self.law.n_negatives + 1, len(contexts)))
        step = max(_CHUNK // head, 1)
        for start in range(0, len(contexts), step):
            part = contexts.take(np.arange(start, min(start + step, len(contexts))))
            gains = gain_at(metric, np.arange(head), part)
            tail: FloatArray = np.zeros((len(part), 1))
            if head < size:
                tail = gain_at(metric, np.array([head]), part)
                gains -= tail
            gains *= self.prior[:head]
            moment = tail * self.marginal + self.law.add(gains, floor=self.floor)
            result[:, start : start + step] = moment.T
        return result

    def spread(self, dual: FloatArray) -> FloatArray:
        """Return D A z, the weights over J = 0..L that a vector z over j stands for."""
        return self.law.dot(dual, floor=self.floor) * self.prior


def gain_at(metric: Metric, n_above: IntArray, contexts: Contexts) -> FloatArray:
    """Return the gain of a target with J irrelevant items above it, (n_contexts, len(n_above))."""
    above, relevant, pool = (
        column[:, None] for column in (contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
    )
    rank = n_above + 1 + above
    return np.array(np.broadcast_to(metric.gain(rank, above, relevant, pool), rank.shape), dtype=np.float64)
