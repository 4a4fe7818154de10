"""Closed forms for the expected sampled metric of one target, both laws.

Symbols: N = L + 1 ranks, n = m + 1 sampled items with the target, R = J + 1 global rank, theta = J/L.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from truerank.core.errors import InvalidParameter
from truerank.core.types import FloatArray
from truerank.estimators.law import Law


def expected_auc(law: Law, n_above: ArrayLike) -> FloatArray:
    """Return E[AUC of the sample] = AUC of the whole list = 1 - J/L, for every m and both laws.

    Examples
    --------
    >>> from truerank.estimators.law import Binomial
    >>> float(expected_auc(Binomial(4, 2), 1))
    0.75
    """
    return 1.0 - law.mean(n_above) / law.n_negatives


def expected_recall(law: Law, n_above: ArrayLike, cutoff: int) -> FloatArray:
    """Return E[Recall@K of the sample] = P(j <= K - 1 | J).

    With replacement an incomplete beta function, without a sum of at most K terms.

    Examples
    --------
    >>> from truerank.estimators.law import Binomial
    >>> round(float(expected_recall(Binomial(4, 2), 1, 1)), 4)  # (3/4)^2
    0.5625
    """
    above = np.asarray(n_above)
    if cutoff > law.n_negatives:
        return np.ones(above.shape)
    if law.replacement:
        found: FloatArray = betainc(law.n_negatives - cutoff + 1, cutoff, 1.0 - above / law.n_candidates)
        return found
    return law.moments((np.arange(law.n_negatives + 1) < cutoff).astype(np.float64), above)[0]


def expected_ap(law: Law, n_above: ArrayLike) -> FloatArray:
    r"""Return E[1/r], the expected average precision (reciprocal rank) of the whole sampled list.

    .. math:: \frac{1 - (1 - \theta)^n}{n \theta} \text{ with replacement}, \qquad
              \frac{N}{R n} \Big( 1 - \binom{N-R}{n} \Big/ \binom{N}{n} \Big) \text{ without}

    Both as ``-expm1`` of a sum of ``log1p``, which does not cancel; the second takes min(n, R) terms.

    Notes
    -----
    Eq. (29) and (30) of [rendle2019]_ print n + 1 where n - 1 is right.

    Examples
    --------
    >>> from truerank.estimators.law import Binomial, Hypergeometric
    >>> [round(float(expected_ap(law(2, 1), 1)), 4) for law in (Binomial, Hypergeometric)]  # (1 + 1/2)/2
    [0.75, 0.75]
    """
    above = np.asarray(n_above, dtype=np.int64)
    n = law.n_negatives + 1
    if law.replacement:
        theta = np.maximum(above, 1) / law.n_candidates
        with np.errstate(divide="ignore"):
            value = -np.expm1(n * np.log1p(-theta)) / (n * theta)
        return np.where(above == 0, 1.0, value)
    N = law.n_candidates + 1
    R = above + 1
    few, many = np.minimum(R, n), np.maximum(R, n)
    log_missed = np.zeros(above.shape)
    for i in range(int(few.max(initial=0))):
        with np.errstate(divide="ignore", invalid="ignore"):
            term = np.where(many < N - i, np.log1p(-many / np.maximum(N - i, 1)), -np.inf)
        log_missed = np.where(i < few, log_missed + term, log_missed)
    value_without: FloatArray = -np.expm1(log_missed) * N / (R * float(n))
    return value_without


def affine_limit(first: float, second: float, n_candidates: int, n_above: ArrayLike) -> FloatArray:
    """Return the expected sampled metric for one negative: a straight line in the rank.

    Parameters
    ----------
    first, second : the metric at sampled ranks 1 and 2
    n_candidates : L
    n_above : J of each target

    Examples
    --------
    >>> affine_limit(1.0, 0.5, 4, [0, 2, 4]).tolist()
    [1.0, 0.75, 0.5]
    """
    result: FloatArray = first + np.asarray(n_above) / n_candidates * (second - first)
    return result


def smoothed_recall(law: Law, weights: FloatArray, cutoff: int) -> FloatArray:
    r"""Return E[Recall@K of the sample] as the global recall curve smoothed by a Beta(K, n - K) kernel.

    .. math:: E[\text{SHR@}K] = E_{X \sim \text{Beta}(K, n - K)} \big[ \text{HR@}\lceil X (N - 1) \rceil \big]

    Exact with replacement, for 1 <= K <= m.

    Parameters
    ----------
    law : with replacement
    weights : (L + 1,) share of the targets at each global rank
    cutoff : K

    Examples
    --------
    >>> from truerank.estimators.law import Binomial
    >>> round(float(smoothed_recall(Binomial(4, 2), np.array([0, 1, 0, 0, 0]), 1)), 4)
    0.5625
    """
    if not law.replacement or not 1 <= cutoff <= law.n_negatives:
        raise InvalidParameter(
            f"the Beta kernel needs draws with replacement and a cut-off in 1..{law.n_negatives}, "
            f"got cut-off {cutoff}. Use expected_recall."
        )
    L = law.n_candidates
    kernel = np.diff(betainc(cutoff, law.n_negatives + 1 - cutoff, np.arange(L + 1) / L))
    curve = np.cumsum(weights)
    smoothed: FloatArray = kernel @ curve[:L]
    return smoothed
