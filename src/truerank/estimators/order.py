"""Which of several recommenders looks best, sample size by sample size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.distribution import RankDistribution
from truerank.core.errors import InvalidParameter
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimators.analysis import expected_values, population
from truerank.estimators.law import make_law

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
