"""The exponent of Beta(a, 1) ranks, from sampled ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from truerank.core.check import check_above, check_at_least
from truerank.core.errors import CannotEstimate, NotConverged
from truerank.core.tally import Tally
from truerank.core.types import FloatArray
from truerank.estimators.mapping.beta import log_share


@dataclass(frozen=True, eq=False)
class Histogram:
    """How often each sampled rank was seen in lists of each length.

    Parameters
    ----------
    rank : (c,) r = 1..n
    length : (c,) n, the list with the target
    weight : (c,) > 0; a user's targets weigh 1 together
    """

    rank: FloatArray
    length: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, tally: Tally) -> Histogram:
        """Gather the cells of a tally; ranks count irrelevant items only.

        Raises
        ------
        CannotEstimate
            When there is nothing to fit.
        """
        lengths = tally.contexts.n_negatives + 1
        each = np.repeat(lengths, lengths)
        rank = np.arange(tally.n_cells) - np.repeat(tally.offsets[:-1], lengths) + 1
        weight = tally.cell_weights / np.repeat(tally.contexts.n_relevant, lengths)
        pairs, which = np.unique(np.stack([each, rank], axis=1), axis=0, return_inverse=True)
        total = np.zeros(len(pairs))
        np.add.at(total, which.ravel(), weight)
        seen = total > 0
        if not seen.any():
            raise CannotEstimate("a fit needs at least one sampled rank, got none.")
        found = cls(pairs[seen, 1].astype(float), pairs[seen, 0].astype(float), total[seen])
        if (found.rank == found.length).all():
            raise CannotEstimate(
                "a fit needs a target that is not last in its sample, but all are. "
                "Use a mapping without a fit, such as beta(a=1)."
            )
        return found


def fit_by_iteration(
    histogram: Histogram, *, start: float = 0.5, tolerance: float = 1e-10, max_iterations: int = 200
) -> float:
    r"""Return the fixed point of the published iteration.

    .. math:: a \leftarrow -M \Big/ \sum_u \ln \frac{f(r_u; a) - 1}{N - 1}

    N cancels. The hidden rank is replaced by f(r), so the exponent comes out too large, however many users
    there are: 0.45 instead of 0.37 for n = 100. Use ``fit_by_likelihood`` unless the paper is reproduced.

    Parameters
    ----------
    histogram : the sampled ranks
    start : first value, > 0
    tolerance : relative change at which to stop

    Raises
    ------
    NotConverged
        When the change is still larger after ``max_iterations``.

    Notes
    -----
    Implements Eq. 19 of [li2020]_.
    """
    check_above("start", start, 0)
    check_at_least("max_iterations", max_iterations, 1)
    a, total = start, histogram.weight.sum()
    for _ in range(max_iterations):
        before = a
        a = float(-total / (histogram.weight @ log_share(histogram.rank, histogram.length, before)))
        if abs(a - before) <= tolerance * before:
            return a
    raise NotConverged(f"the exponent still changes by {abs(a - before):g} after {max_iterations} steps.", a)


def fit_by_likelihood(histogram: Histogram) -> float:
    r"""Return the exponent under which the sampled ranks are most likely; consistent.

    For Beta(a, 1) ranks and draws with replacement the sampled rank is beta-binomial,

    .. math:: P(r) = \frac{a\, \Gamma(n)\, \Gamma(r - 1 + a)}{\Gamma(n + a)\, \Gamma(r)},

    and a times the derivative of the log-likelihood, the sum over ranks of 1 - \sum_{i=r-1}^{n-1} a/(i + a),
    falls in a: there is one optimum. It is 0 when every target is first in its sample.
    """
    j, n, weight = histogram.rank - 1, histogram.length, histogram.weight
    if (j == 0).all():
        return 0.0
    first = j == 0

    def slope(log_a: float) -> float:
        a = np.exp(log_a)
        # 1 + a (psi(j + a) - psi(n + a)), with 1 + a psi(a) = a psi(a + 1) where j = 0
        lower = digamma(np.where(first, 1.0, j) + a)
        return float(weight @ (np.where(first, 0.0, 1.0) + a * (lower - digamma(n + a))))

    low, high = -1.0, 1.0
    while slope(low) < 0:
        low -= 4
    while slope(high) > 0:
        high += 4
    return float(np.exp(brentq(slope, low, high, xtol=1e-13, rtol=1e-14)))
