"""Expected reciprocal rank: one over the rank at which a user is satisfied and stops, by graded relevance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import GradedMetric
from truerank.metrics.grades import GradedTargets
from truerank.metrics.ties import TiedBlocks, mean_over_slots


@dataclass(frozen=True)
class Err(GradedMetric):
    r"""Mean of one over the rank at which a user stops who goes down the list until satisfied.

    A target satisfies with a probability that grows with its gain; irrelevant items never do. Without gains
    each target satisfies with probability 1/2. Time O(1) per target; O(s^3) in a block of s tied targets.

    .. math:: \text{ERR@}K = \sum_{R \in S} \frac{1[R \le K]}{R} \, p_R \prod_{R' < R} (1 - p_{R'}),
              \qquad p = \frac{g}{g_{\max} + 1}

    Parameters
    ----------
    cutoff : K; None for the whole list
    highest : the gain of the highest grade; none takes the largest gain of all targets, 1 without gains

    Notes
    -----
    With gains 2^r - 1 the probability is that of the paper, (2^r - 1) / 2^r_max. The order of a user's
    targets is known, from their own scores, so the product is a known weight, also where ranks among all
    items are estimated. Under ties the value is the exact mean over all orders.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from truerank.core.ranks import Ranks
    >>> ranks = Ranks.single([0, 1], n_pool=20)
    >>> Err(10).per_user(ranks).tolist()
    [0.5, 0.25]
    >>> Err(10).per_user(replace(ranks, gain=np.array([1.0, 3.0]))).tolist()  # p = 1/4 and 3/4
    [0.25, 0.375]
    """

    highest: float | None = None
    key: ClassVar[str] = "err"
    source: ClassVar[Source] = Source("chapelle2009")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest is not None and not 0 < self.highest < np.inf:
            raise InvalidParameter(f"highest must be a finite number above 0, got {self.highest:g}.")

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] p (1 - p)^n_relevant_above / rank, where all gains are 1."""
        return self.is_within(rank) * self._ungraded(rank, n_relevant_above)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean of the gain over the block's slots, 0 beyond the cut-off."""
        return mean_over_slots(self._ungraded, blocks, self.cutoff)

    def rank_gain(self, rank: IntArray) -> FloatArray:
        """Return 1[rank <= K] / rank."""
        return self.is_within(rank) / rank

    def grade_weights(self, targets: GradedTargets, row: IntArray, n_tied_before: IntArray) -> FloatArray:
        """Return the probability of coming to the target and being satisfied by it."""
        highest = targets.largest if self.highest is None else self.highest
        if targets.largest > highest:
            raise InvalidData(
                f"gains must be at most {highest:g}, the highest of {self}, got {targets.largest:g}. "
                "Raise highest."
            )
        stop = targets.gain / (highest + 1)
        weights: FloatArray = (stop * targets.complete.product_before(1 - stop))[row]
        shared = np.flatnonzero(n_tied_before > 0)
        if len(shared):
            place, products, first = np.full(len(stop), -1), [], 0
            for rows, means in targets.tied_products(1 - stop):
                place[rows] = first + np.arange(len(rows)) * means.shape[1]
                products.append(means.ravel())
                first += means.size
            weights[shared] *= np.concatenate(products)[place[row[shared]] + n_tied_before[shared]]
        return weights

    def _ungraded(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
        stop = 1 / ((self.highest or 1.0) + 1)
        value: FloatArray = stop * (1 - stop) ** np.asarray(n_relevant_above) / rank
        return value
