"""Expected sampled metrics in closed form, and the sample sizes at which the order of recommenders flips.

The expectation of AUC, recall and average precision over samples of one target, with and without replacement
[rendle2019]_; sampled recall as the global recall curve under a Beta kernel [li2020]_; the order in which
several recommenders come out, sample size by sample size; and the distribution of sampled ranks where scores
tie. Used by the recipes of the papers alone: what any estimator does on average is computed by
``truerank.estimation.expectation``.

Symbols: N = L + 1 ranks, n = m + 1 sampled items with the target, R = J + 1 global rank, theta = J/L.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, gammaln, xlogy

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import RankDistribution, Ranks
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.base import Estimator
from truerank.estimation.expectation import expected_values, population
from truerank.estimation.law import FixedLaw, make_law
from truerank.metrics.base import Metric

_EQUAL = 1e-12  # relative difference below which two expectations count as equal


def expected_auc(law: FixedLaw, n_above: ArrayLike) -> FloatArray:
    """Return E[AUC of the sample] = AUC of the whole list = 1 - J/L, for every m and both laws.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> float(expected_auc(Binomial(4, 2), 1))
    0.75
    """
    return 1.0 - law.mean(n_above) / law.n_negatives


def expected_recall(law: FixedLaw, n_above: ArrayLike, cutoff: int) -> FloatArray:
    """Return E[Recall@K of the sample] = P(j <= K - 1 | J).

    With replacement an incomplete beta function, without a sum of at most K terms.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> round(float(expected_recall(Binomial(4, 2), 1, 1)), 4)  # (3/4)^2
    0.5625
    """
    above = np.asarray(n_above)
    if cutoff > law.n_negatives:
        return np.ones(above.shape)
    if law.replacement:
        recall: FloatArray = betainc(law.n_negatives - cutoff + 1, cutoff, 1.0 - above / law.n_candidates)
        return recall
    return law.moments((np.arange(law.n_negatives + 1) < cutoff).astype(np.float64), above)[0]


def expected_ap(law: FixedLaw, n_above: ArrayLike) -> FloatArray:
    r"""Return E[1/r], the expected average precision (reciprocal rank) of the whole sampled list.

    .. math:: \frac{1 - (1 - \theta)^n}{n \theta} \text{ with replacement}, \qquad
              \frac{N}{R n} \Big( 1 - \binom{N-R}{n} \Big/ \binom{N}{n} \Big) \text{ without}

    Both as ``-expm1`` of a sum of ``log1p``, which does not cancel; the second takes min(n, R) terms.

    Notes
    -----
    Eq. (29) and (30) of [rendle2019]_ print n + 1 where n - 1 is right.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial, Hypergeometric
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


def smoothed_recall(law: FixedLaw, weights: FloatArray, cutoff: int) -> FloatArray:
    r"""Return E[Recall@K of the sample] as the global recall curve smoothed by a Beta(K, n - K) kernel.

    .. math:: E[\text{SHR@}K] = E_{X \sim \text{Beta}(K, n - K)} \big[ \text{HR@}\lceil X (N - 1) \rceil \big]

    Exact with replacement, for 1 <= K <= m.

    Parameters
    ----------
    law : with replacement
    weights : (L + 1,) fraction of the targets at each global rank
    cutoff : K

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> round(float(smoothed_recall(Binomial(4, 2), np.array([0, 1, 0, 0, 0]), 1)), 4)
    0.5625
    """
    if not law.replacement or not 1 <= cutoff <= law.n_negatives:
        raise InvalidParameter(
            f"the Beta kernel needs draws with replacement and a cut-off in 1..{law.n_negatives}, "
            f"got replacement={law.replacement} and cut-off {cutoff}. Use expected_recall."
        )
    L = law.n_candidates
    kernel = np.diff(betainc(cutoff, law.n_negatives + 1 - cutoff, np.arange(L + 1) / L))
    curve = np.cumsum(weights)
    smoothed: FloatArray = kernel @ curve[:L]
    return smoothed


def sampled_rank_chances(
    ranks: Ranks, n_negatives: int, *, replacement: bool, can_be_last: bool = True
) -> FloatArray:
    r"""Return P(j = 0..m sampled items stand above the target) of each row, (n_rows, m + 1).

    A target that ties with k of the sampled items takes one of the k + 1 places among them at random. With
    a sampled items above and k tied,

    .. math:: P(j) = \sum_{a \le j \le a + k} \frac{P(a, k)}{k + 1}.

    O(m^2) for each tied row, O(m) for the others.

    Parameters
    ----------
    ranks : exact ranks of one target per user
    n_negatives : m
    replacement : whether an item can be drawn twice; two draws of a tied item count as two items
    can_be_last : False leaves the last of the k + 1 places out wherever k >= 1, as drawing an integer
        between the best and the worst rank without the latter does

    Raises
    ------
    InvalidData
        When a user has several targets.

    Examples
    --------
    >>> ranks = Ranks.single([0], n_pool=5, n_tied=4)  # ties with all four items, two of them drawn
    >>> sampled_rank_chances(ranks, 2, replacement=False).round(4).tolist()
    [[0.3333, 0.3333, 0.3333]]
    >>> sampled_rank_chances(ranks, 2, replacement=False, can_be_last=False).round(4).tolist()
    [[0.5, 0.5, 0.0]]
    """
    if (ranks.n_relevant != 1).any():
        raise InvalidData("the distribution of sampled ranks needs one target per user. Leave out the rest.")
    chances = np.empty((len(ranks), n_negatives + 1))
    candidates = ranks.n_pool - 1
    for size in np.unique(candidates).tolist():
        rows = np.flatnonzero((candidates == size) & (ranks.n_tied == 0))
        chances[rows] = make_law(size, n_negatives, replacement=replacement).pmf(ranks.n_above[rows])
    above, tied = (grid.ravel() for grid in np.indices((n_negatives + 1, n_negatives + 1)))
    above, tied = above[above + tied <= n_negatives], tied[above + tied <= n_negatives]
    n_places = tied + 1 if can_be_last else np.maximum(tied, 1)
    for row in np.flatnonzero(ranks.n_tied):
        kinds = np.array([ranks.n_above[row], ranks.n_tied[row], 0], dtype=np.float64)
        kinds[2] = candidates[row] - kinds.sum()
        drawn = np.stack([above, tied, n_negatives - above - tied])
        weight = _joint_chances(kinds[:, None], drawn, replacement) / n_places
        change = np.bincount(above, weight, n_negatives + 2)
        change -= np.bincount(above + n_places, weight, n_negatives + 2)
        chances[row] = np.cumsum(change)[:-1]
    return chances


def _joint_chances(kinds: FloatArray, drawn: IntArray, replacement: bool) -> FloatArray:
    """Return the probabilities of drawing so many of each kind: multinomial, or hypergeometric without."""
    total, m = kinds.sum(), drawn[:, 0].sum()
    if replacement:
        log_chance = gammaln(m + 1) + (xlogy(drawn, kinds / total) - gammaln(drawn + 1)).sum(axis=0)
    else:
        left = np.maximum(kinds - drawn, 0)
        ways = gammaln(kinds + 1) - gammaln(drawn + 1) - gammaln(left + 1)
        whole = gammaln(total + 1) - gammaln(m + 1) - gammaln(total - m + 1)
        log_chance = np.where((drawn <= kinds).all(axis=0), ways.sum(axis=0) - whole, -np.inf)
    chances: FloatArray = np.exp(log_chance)
    return chances


@dataclass(frozen=True, eq=False)
class OrderFlips:
    """Expected metrics of several recommenders over sample sizes, and their orders.

    Parameters
    ----------
    names : the recommenders
    n_negatives : (n_sizes,) sample sizes, ascending
    expected : (n_sizes, n_recommenders)
    exact : (n_recommenders,) the metric without sampling
    """

    names: tuple[str, ...]
    n_negatives: IntArray
    expected: FloatArray
    exact: FloatArray

    @property
    def exact_order(self) -> str:
        """Return the order without sampling, such as ``C > A = B``."""
        return order_of(self.exact, self.names)

    @property
    def agrees(self) -> BoolArray:
        """Return, per sample size, whether every pair is in the same order as without sampling."""
        wanted = _signs(self.exact)
        return np.array([np.array_equal(_signs(row), wanted) for row in self.expected], dtype=np.bool_)

    def runs(self) -> list[tuple[int, int, str]]:
        """Return (first sample size, last sample size, order) for each stretch without a flip."""
        runs: list[tuple[int, int, str]] = []
        for size, row in zip(self.n_negatives.tolist(), self.expected, strict=True):
            order = order_of(row, self.names)
            if runs and runs[-1][2] == order:
                runs[-1] = (runs[-1][0], size, order)
            else:
                runs.append((size, size, order))
        return runs

    def flips(self) -> list[int]:
        """Return the sample sizes at which the order differs from that at the size before."""
        return [first for first, _, _ in self.runs()[1:]]


def order_flips(
    recommenders: Mapping[str, ArrayLike | RankDistribution],
    metric: Metric,
    *,
    n_pool: int,
    n_negatives: Sequence[int] | IntArray | None = None,
    replacement: bool = True,
    estimator: Estimator | None = None,
) -> OrderFlips:
    """Return the expected metric of each recommender over sample sizes.

    A metric is consistent under sampling when its order never depends on the sample size; only AUC is. Time
    O(distinct ranks x sqrt(m)) per size and metric.

    Parameters
    ----------
    recommenders : name to global ranks 1..n_pool, one per user, or a rank distribution
    metric : what is compared
    n_pool : N
    n_negatives : sample sizes; all of 1..N - 1 unless given
    replacement : whether an item can be drawn twice
    estimator : ``naive`` unless given; a correction should flip less

    Raises
    ------
    InvalidParameter
        When there is no recommender or no sample size.
    """
    sizes = np.arange(1, n_pool) if n_negatives is None else np.unique(np.asarray(n_negatives))
    if not recommenders or len(sizes) == 0:
        raise InvalidParameter("order_flips needs at least one recommender and one sample size.")
    groups = [population(ranks, n_pool) for ranks in recommenders.values()]
    above = np.unique(np.concatenate([group[0] for group in groups]))
    fractions = np.zeros((len(groups), len(above)))
    for row, (occurring, fraction, _) in enumerate(groups):
        fractions[row, np.searchsorted(above, occurring)] = fraction
    expected = np.empty((len(sizes), len(groups)))
    for row, size in enumerate(sizes.tolist()):
        law = make_law(n_pool - 1, size, replacement=replacement)
        mean, _ = expected_values(metric, law, above, estimator=estimator)
        expected[row] = fractions @ mean
    one = np.ones_like(above)
    gains = np.broadcast_to(metric.gain(above + 1, 0 * one, one, n_pool * one), above.shape)
    return OrderFlips(tuple(recommenders), sizes, expected, fractions @ gains)


def order_of(values: FloatArray, names: Sequence[str]) -> str:
    """Return the order of values, highest first.

    Examples
    --------
    >>> order_of(np.array([0.1, 0.3, 0.1]), ["A", "B", "C"])
    'B > A = C'
    """
    groups: list[list[int]] = []
    for index in np.argsort(-values, kind="stable").tolist():
        if groups and _is_equal(values[groups[-1][-1]], values[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return " > ".join(" = ".join(names[index] for index in sorted(group)) for group in groups)


def _signs(values: FloatArray) -> FloatArray:
    left, right = values[:, None], values[None, :]
    signs: FloatArray = np.where(_is_equal(left, right), 0.0, np.sign(left - right))
    return signs


def _is_equal(left: FloatArray, right: FloatArray) -> BoolArray:
    is_equal: BoolArray = np.abs(left - right) <= _EQUAL * np.maximum(np.abs(left), np.abs(right))
    return is_equal
