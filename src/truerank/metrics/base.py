"""Base classes of metrics: a gain per target, summed over the targets of a user, averaged over users.

Under the tie policy ``expected`` the gain of a tied target is its exact mean over all orders of the tied
block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import binom

from truerank.core.errors import CannotEstimate, InvalidParameter, check_cutoff
from truerank.core.plugin import Plugin
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.grades import GradedTargets
from truerank.metrics.ties import ResolvedRanks, TiedBlocks, mean_over_slots, means_by_order


@dataclass(frozen=True)
class Metric(Plugin, ABC):
    """A top-K metric; ``cutoff`` None means the whole list."""

    cutoff: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.cutoff)

    @abstractmethod
    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return the gain of a target at a rank, what it adds to the value of its user; arguments broadcast.

        Raises
        ------
        CannotEstimate
            When the metric is not a sum over targets.
        """

    @abstractmethod
    def per_user(self, ranks: Ranks, *, ties: TiePolicy = "expected", seed: int = 0) -> FloatArray:
        """Return one value per user, in the order of ``ranks.starts``."""

    def check_cutoff(self, largest_pool: int) -> None:
        """Raise when the cut-off is larger than every pool."""
        if self.cutoff is not None and self.cutoff > largest_pool:
            raise InvalidParameter(
                f"cutoff of {self} must be at most the largest pool of {largest_pool} items, got "
                f"{self.cutoff}. Lower it."
            )


@dataclass(frozen=True)
class RankMetric(Metric):
    """A metric of ranks; subclasses define the gain at one rank and its mean over a tied block."""

    @abstractmethod
    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the exact mean of the gain over all orders of each target's tied block."""

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return False

    def check_pool(self, ranks: Ranks) -> None:
        """Raise unless the metric is defined for these pools."""
        if len(ranks):
            self.check_cutoff(int(ranks.n_pool.max()))

    def depth(self, n_pool: IntArray) -> IntArray:
        """Return the length of the evaluated list: the cut-off, or the whole pool."""
        pool = np.asarray(n_pool)
        return pool if self.cutoff is None else np.full_like(pool, self.cutoff)

    def is_within(self, rank: IntArray) -> FloatArray:
        """Return 1 for ranks within the cut-off and 0 for the others."""
        if self.cutoff is None:
            return np.ones(np.shape(rank))
        return (np.asarray(rank) <= self.cutoff).astype(np.float64)

    def totals(self, ranks: ResolvedRanks) -> FloatArray:
        """Return one value per user from ranks whose ties are already resolved."""
        gains = self.gain(ranks.rank, ranks.n_relevant_above, ranks.n_relevant, ranks.n_pool)
        if len(ranks.tied):
            gains[ranks.tied] = self.expected_gain(ranks.blocks)
        return ranks.per_user(gains)

    def per_user(self, ranks: Ranks, *, ties: TiePolicy = "expected", seed: int = 0) -> FloatArray:
        """Return one value per user, in the order of ``ranks.starts``.

        Raises
        ------
        InvalidParameter
            When the cut-off is larger than every pool.
        InvalidData
            When the metric is undefined for a user.
        """
        self.check_pool(ranks)
        return self.totals(ResolvedRanks.of(ranks, ties, seed))


@dataclass(frozen=True)
class GradedMetric(RankMetric):
    """A metric that uses gains of targets: the sum of a known weight times a gain at the rank.

    Without gains it is an ordinary metric of ranks, equal to that with all gains 1.
    """

    @abstractmethod
    def rank_gain(self, rank: IntArray) -> FloatArray:
        """Return the gain of a target of weight 1 at a rank; 0 beyond the cut-off."""

    @abstractmethod
    def grade_weights(self, targets: GradedTargets, row: IntArray, n_tied_before: IntArray) -> FloatArray:
        """Return the weight of some targets, which does not depend on the irrelevant items above them.

        Parameters
        ----------
        targets : all targets, with their gains and their order
        row : which of them
        n_tied_before : how many targets of the same tied block come before it; the weight is the mean over
            all orders in which they are so many
        """

    def expected_grades(self, blocks: TiedBlocks, targets: GradedTargets, rows: IntArray) -> FloatArray:
        """Return the exact mean of weight times gain over all orders of the tied blocks of some rows."""
        row, k, mean = means_by_order(self.rank_gain, blocks, self.cutoff)
        weights = self.grade_weights(targets, rows[row], k)
        sums: FloatArray = np.bincount(row, weights=weights * mean, minlength=len(rows)).astype(float)
        return sums

    def totals(self, ranks: ResolvedRanks) -> FloatArray:
        """Return one value per user from ranks whose ties are already resolved."""
        if ranks.targets is None:
            return super().totals(ranks)
        rows = np.arange(len(ranks.rank))
        gains = self.rank_gain(ranks.rank) * self.grade_weights(ranks.targets, rows, np.zeros_like(rows))
        if len(ranks.tied):
            gains[ranks.tied] = self.expected_grades(ranks.blocks, ranks.targets, ranks.tied)
        return ranks.per_user(gains)


def counted_weights(
    metric: Metric, targets: GradedTargets, row: IntArray, n_tied_before: IntArray
) -> FloatArray:
    """Return the weights of targets in a metric that counts those of a gain above 0 alike, whatever it is.

    The gain of a target at its rank is this weight times that of the only target of a user. Which targets
    stand above which is known, and with it the weight.

    Parameters
    ----------
    metric, targets, row, n_tied_before : as in ``GradedMetric.grade_weights``

    Raises
    ------
    CannotEstimate
        When the gain is no product of such a weight and a function of the rank, as that of ``auc``.
    """
    _check_separable(metric)
    is_counted = (targets.gain > 0).astype(np.int64)
    order = np.lexsort((targets.n_before, targets.user))
    starts = np.flatnonzero(np.diff(targets.user[order], prepend=-1))
    is_new = np.diff(targets.n_before[order], prepend=-1) != 0
    is_new[starts] = True
    blocks = np.flatnonzero(is_new)  # targets of a user that tie with each other
    block = np.empty(len(order), np.int64)
    block[order] = np.cumsum(is_new) - 1
    sums = np.concatenate([[0], np.cumsum(is_counted[order])])
    in_block = np.add.reduceat(is_counted[order], blocks)[block]
    above = sums[blocks][block] - sums[starts][targets.user]
    total = np.add.reduceat(is_counted[order], starts)[targets.user]

    def weight(n_above: IntArray) -> FloatArray:
        none, one, pool = np.zeros_like(row), np.ones_like(row), np.full_like(row, _POOL)
        relevant = np.maximum(total[row], 1)
        return metric.gain(one, n_above, relevant, pool) / metric.gain(one, none, one, pool)

    others = (in_block - is_counted)[row]  # of the same block, counted like this one
    result: FloatArray = np.zeros(len(row))
    tied = targets.n_tied[row]
    for n_above in range(int(others.max(initial=0)) + 1):
        ways = binom(others, n_above) * binom(tied - others, n_tied_before - n_above)
        chance = ways / binom(tied, n_tied_before)  # of so many counted ones among those before it
        result += np.where(chance > 0, chance * weight(above[row] + n_above), 0.0)
    return np.where(is_counted[row] > 0, result, 0.0)


_POOL = 1 << 20  # any: weights do not depend on it


def _check_separable(metric: Metric) -> None:
    rank = np.unique([1, 2, 3, metric.cutoff or 5])[:, None, None]
    above, more = np.arange(3)[:, None], np.arange(1, 4)
    for n_pool in (10 + 2 * int(rank.max()), 10 + 3 * int(rank.max())):
        pool, one = np.array([[[n_pool]]]), np.ones((1, 1, 1), np.int64)
        together = metric.gain(rank, above, above + more, pool) * metric.gain(one, 0 * one, one, pool)
        apart = metric.gain(one, above, above + more, pool) * metric.gain(rank, 0 * one, one, pool)
        is_positive = metric.gain(one, 0 * one, one, pool).all()
        if not (is_positive and np.allclose(together, apart, rtol=1e-9, atol=1e-15)):
            raise CannotEstimate(
                f"'{metric}' of some targets of a user cannot be estimated from sampled ranks, because the "
                "targets that are left out change more than its weight. Rank all items, or leave it out."
            )


@dataclass(frozen=True)
class GainMetric(RankMetric):
    r"""A metric defined by the gain of a target at its rank: the sum of gains over that of an ideal list.

    A subclass defines ``gain_at``. Ties, cut-offs, several targets, estimates from sampled ranks, intervals
    and bounds follow from it: the gain is 0 beyond the cut-off, and the mean over the orders of a tied block
    is exact.

    .. math:: \text{value} = \sum_{R \in S} 1[R \le K]\, g(R, a_R) \Big/ \sum_{i=1}^{\min(s, K)} g(i, i - 1)

    with a_R the number of relevant items above the one at rank R, and s that of all relevant items.

    Examples
    --------
    >>> class Halving(GainMetric):
    ...     key = "halving"
    ...     def gain_at(self, rank, n_relevant_above):
    ...         return 0.5 ** (rank - 1)
    >>> Halving(10).per_user(Ranks.single([0, 2, 10], n_pool=100)).tolist()
    [1.0, 0.25, 0.0]
    """

    @abstractmethod
    def gain_at(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
        """Return what a target at a rank adds, given the number of relevant items above it.

        Parameters
        ----------
        rank : from 1, the best; the cut-off need not be looked at
        n_relevant_above : other targets of the user above it, from 0; the two arrays broadcast
        """

    def normaliser(self, n_relevant: IntArray) -> FloatArray:
        """Return what the sum over targets is divided by: that of a list with all relevant items on top.

        Override it for another one, such as ``n_relevant`` or 1.
        """
        count = n_relevant if self.cutoff is None else np.minimum(n_relevant, self.cutoff)
        first = np.arange(int(np.max(count, initial=0)))
        ideal: FloatArray = np.concatenate([[0.0], self._checked(first + 1, first)]).cumsum()[count]
        if not (ideal > 0).all():
            raise InvalidParameter(
                f"gain_at of '{self}' must add up to more than 0 for an ideal list, got {ideal.min():g}. "
                "Correct it, or define normaliser."
            )
        return ideal

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] gain_at(rank, n_relevant_above) / normaliser."""
        gains = self.is_within(rank) * self._checked(rank, n_relevant_above)
        return gains / self.normaliser(np.asarray(n_relevant))

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean gain over the block's slots, 0 beyond the cut-off, / normaliser."""
        return mean_over_slots(self._checked, blocks, self.cutoff) / self.normaliser(blocks.n_relevant)

    def _checked(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
        gains = np.asarray(self.gain_at(np.asarray(rank), np.asarray(n_relevant_above)), dtype=np.float64)
        shape = np.broadcast_shapes(np.shape(rank), np.shape(n_relevant_above))
        has_shape = gains.shape in ((), shape)
        if not has_shape or not np.isfinite(gains).all():
            came = "NaN or infinity" if has_shape else f"shape {gains.shape} for ranks of shape {shape}"
            raise InvalidParameter(
                f"gain_at of '{self}' must return one finite number for each rank, got {came}. Correct it."
            )
        return np.broadcast_to(gains, shape)
