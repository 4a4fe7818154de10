"""What an estimator does on average: expectation, bias and variance over samples, for known ranks.

Which of several recommenders looks best, sample size by sample size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Design, RankDistribution
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.naive import Naive
from truerank.estimation.law import Law, make_law
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True)
class Behaviour:
    """An estimator of one metric over all samples of fixed ranks, one target per user.

    Parameters
    ----------
    truth : the exact metric
    mean : expectation of the estimate
    sd_row : root of the mean over users of the variance of one user's value
    sd_mean : standard deviation of the estimate over ``n_users`` users
    n_users : users averaged over
    """

    truth: float
    mean: float
    sd_row: float
    sd_mean: float
    n_users: int

    @property
    def bias(self) -> float:
        """Expectation minus truth."""
        return self.mean - self.truth


def corrected_values(estimator: Estimator, metric: Metric, law: Law | AdaptiveLaw) -> FloatArray:
    """Return x of each outcome for a target without other targets, (m + 1,) or (n_outcomes,).

    Outcomes are sampled ranks, or pairs of a sample size and a sampled rank under an adaptive law.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> from truerank.estimation.corrections.rank_estimate import RankEstimate
    >>> from truerank.metrics.registry import METRICS
    >>> corrected_values(RankEstimate(), METRICS.make("ap"), Binomial(8, 2)).tolist()  # at ranks 1, 5 and 9
    [1.0, 0.2, 0.1111111111111111]
    """
    tally = _single(law)
    values = estimator.corrected(tally, [metric])[:, 0]
    if not isinstance(law, AdaptiveLaw):
        return values
    starts = dict(zip(law.sizes, tally.offsets.tolist(), strict=False))
    first = np.array([starts[m] for m in law.n_negatives.tolist()])
    picked: FloatArray = values[first + law.n_above]
    return picked


def expected_values(
    metric: Metric, law: Law | AdaptiveLaw, n_above: ArrayLike, *, estimator: Estimator | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of one target's value for each J items above it.

    Parameters
    ----------
    metric, law : what is measured and how items are drawn
    n_above : J of each target
    estimator : ``naive`` unless given
    """
    return law.moments(corrected_values(estimator or Naive(), metric, law), n_above)


def behaviour(
    metric: Metric,
    law: Law | AdaptiveLaw,
    ranks: ArrayLike | RankDistribution,
    *,
    estimator: Estimator | None = None,
    n_users: int | None = None,
) -> Behaviour:
    """Return truth, expectation and spread of an estimate for known global ranks.

    Parameters
    ----------
    metric, law : what is measured and how items are drawn
    ranks : global ranks 1..N of the users, or a distribution over them
    estimator : ``naive`` unless given
    n_users : users the mean is taken over; the number of ranks, or 1 for a distribution, unless given

    Raises
    ------
    InvalidData
        When a rank lies outside 1..N.
    """
    above, share, counted = population(ranks, law.n_candidates + 1)
    n_users = counted if n_users is None else n_users
    mean, variance = expected_values(metric, law, above, estimator=estimator)
    one = np.ones_like(above)
    exact = metric.gain(above + 1, 0 * one, one, one + law.n_candidates)
    spread = float(share @ variance)
    return Behaviour(
        truth=float(share @ np.broadcast_to(exact, above.shape)),
        mean=float(share @ mean),
        sd_row=float(np.sqrt(spread)),
        sd_mean=float(np.sqrt(spread / n_users)),
        n_users=n_users,
    )


def population(ranks: ArrayLike | RankDistribution, n_ranks: int) -> tuple[IntArray, FloatArray, int]:
    """Return the distinct J, their shares, and how many users there are."""
    if isinstance(ranks, RankDistribution):
        if ranks.n_pool != n_ranks:
            raise InvalidData(
                f"the rank distribution must have {n_ranks} ranks like the law, got {ranks.n_pool}."
            )
        above = np.flatnonzero(ranks.weights)
        return above, ranks.weights[above], 1
    given = np.asarray(ranks)
    if given.size == 0 or given.dtype.kind not in "iu" or given.min() < 1 or given.max() > n_ranks:
        raise InvalidData(f"global ranks must be integers in 1..{n_ranks}, and at least one.")
    distinct, counts = np.unique(given, return_counts=True)
    return distinct.astype(np.int64) - 1, counts / given.size, int(given.size)


def _single(law: Law | AdaptiveLaw) -> Tally:
    """Return a tally with the contexts of one target under a law and no rows."""
    sizes = np.array(law.sizes if isinstance(law, AdaptiveLaw) else [law.n_negatives], dtype=np.int64)
    one = np.ones_like(sizes)
    none = np.zeros(0, dtype=np.int64)
    stopping = law.stopping if isinstance(law, AdaptiveLaw) else None
    return Tally(
        contexts=Contexts(sizes, one * law.n_candidates, 0 * one, one, one + law.n_candidates),
        user=none,
        cell=none,
        weight=np.zeros(0),
        n_users=0,
        n_rows=0,
        design=Design(replacement=law.replacement, stopping=stopping),
    )


_EQUAL = 1e-12  # relative difference below which two expectations count as equal


@dataclass(frozen=True, eq=False)
class OrderFlips:
    """Expected metrics of several recommenders over sample sizes, and the orders they are in.

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
        """Return, per sample size, whether every pair stands as it does without sampling."""
        wanted = _signs(self.exact)
        return np.array([np.array_equal(_signs(row), wanted) for row in self.expected], dtype=np.bool_)

    def runs(self) -> list[tuple[int, int, str]]:
        """Return (first sample size, last sample size, order) for each stretch without a flip."""
        found: list[tuple[int, int, str]] = []
        for size, row in zip(self.n_negatives.tolist(), self.expected, strict=True):
            order = order_of(row, self.names)
            if found and found[-1][2] == order:
                found[-1] = (found[-1][0], size, order)
            else:
                found.append((size, size, order))
        return found

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
    shares = np.zeros((len(groups), len(above)))
    for row, (places, share, _) in enumerate(groups):
        shares[row, np.searchsorted(above, places)] = share
    expected = np.empty((len(sizes), len(groups)))
    for row, size in enumerate(sizes.tolist()):
        law = make_law(n_pool - 1, size, replacement=replacement)
        mean, _ = expected_values(metric, law, above, estimator=estimator)
        expected[row] = shares @ mean
    one = np.ones_like(above)
    gains = np.broadcast_to(metric.gain(above + 1, 0 * one, one, n_pool * one), above.shape)
    return OrderFlips(tuple(recommenders), sizes, expected, shares @ gains)


def order_of(values: FloatArray, names: Sequence[str]) -> str:
    """Return the order of values, highest first.

    Examples
    --------
    >>> order_of(np.array([0.1, 0.3, 0.1]), ["A", "B", "C"])
    'B > A = C'
    """
    groups: list[list[int]] = []
    for place in np.argsort(-values, kind="stable").tolist():
        if groups and _is_equal(values[groups[-1][-1]], values[place]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return " > ".join(" = ".join(names[place] for place in sorted(group)) for group in groups)


def _signs(values: FloatArray) -> FloatArray:
    left, right = values[:, None], values[None, :]
    signs: FloatArray = np.where(_is_equal(left, right), 0.0, np.sign(left - right))
    return signs


def _is_equal(left: FloatArray, right: FloatArray) -> BoolArray:
    is_equal: BoolArray = np.abs(left - right) <= _EQUAL * np.maximum(np.abs(left), np.abs(right))
    return is_equal
