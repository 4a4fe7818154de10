"""Normalised discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidParameter, check_choice
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import GradedMetric
from truerank.metrics.grades import GradedTargets
from truerank.metrics.ties import Discount, TiedBlocks, discount_sums, log_discount


@dataclass(frozen=True)
class Ndcg(GradedMetric):
    r"""Discounted gain of the relevant items in the first K over that of an ideal list.

    With gains of targets, such as ratings, a target counts by its gain; without them all gains are 1. Time
    O(1) per target, tied or not, after a table of discount sums (16 bytes per rank
    down to the lowest tied one, or to K).

    .. math:: \text{NDCG@}K = \sum_{R \in S} \frac{1[R \le K] \, g_R}{\log_2(R + 1)} \Big/
              \sum_{i=1}^{\min(s, K)} \frac{g_{(i)}}{\log_2(i + 1)}

    with the gain g of the target at rank R, and the i-th largest gain of the user's s targets.

    Parameters
    ----------
    cutoff : K; None for the whole list
    ideal : the ideal list: ``min`` has the best min(s, K) targets on top, ``all`` all s of them however small
        K is, ``k`` K relevant items, so that a user with fewer cannot reach 1; ``k`` knows no gains
    discount : ``log2`` is 1/log2(rank + 1); ``clip`` is 1/log2(max(rank, 2)), the original one, where the
        first two ranks count the same

    Notes
    -----
    Differs from the paper: the default discount is the one that nearly every library uses today;
    [jarvelin2002]_ is ``discount=clip``.

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Ndcg(10).per_user(Ranks.single([0, 2, 10], n_pool=100)).tolist()  # 1/log2(4) for rank 3
    [1.0, 0.5, 0.0]
    """

    ideal: Literal["min", "all", "k"] = "min"
    discount: Discount = "log2"
    key: ClassVar[str] = "ndcg"
    source: ClassVar[Source] = Source("jarvelin2002", "Sec. 2.2")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ideal", self.ideal, ("min", "all", "k"))
        check_choice("discount", self.discount, ("log2", "clip"))

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return self.ideal == "k" and self.cutoff is None

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] discount(rank) / ideal."""
        return self.rank_gain(rank) / self._ideal(n_relevant, n_pool)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean discount of the block's slots, 0 beyond the cut-off, / ideal."""
        return self._mean_discount(blocks) / self._ideal(blocks.n_relevant, blocks.n_pool)

    def rank_gain(self, rank: IntArray) -> FloatArray:
        """Return 1[rank <= K] discount(rank)."""
        return self.is_within(rank) * log_discount(rank, self.discount)

    def grade_weights(self, targets: GradedTargets, row: IntArray, n_tied_before: IntArray) -> FloatArray:
        """Return gain / ideal, whatever the order."""
        if self.ideal == "k":
            raise InvalidParameter(
                f"{self} has an ideal list of equal items, so it knows no gains. Use ideal=min or all, or "
                "leave gain out."
            )
        most = int(np.bincount(targets.user).max(initial=0)) + len(targets.unranked_user)
        depth = most if self.ideal == "all" or self.cutoff is None else min(self.cutoff, most)
        ideal = targets.complete.ideal_sums(log_discount(np.arange(1, depth + 1), self.discount))
        weights: FloatArray = targets.gain[row] / ideal[targets.user[row]]
        return weights

    def expected_grades(self, blocks: TiedBlocks, targets: GradedTargets, rows: IntArray) -> FloatArray:
        """Return the weight times the mean discount of the block's slots."""
        return self.grade_weights(targets, rows, np.zeros_like(rows)) * self._mean_discount(blocks)

    def _mean_discount(self, blocks: TiedBlocks) -> FloatArray:
        end = blocks.n_above + blocks.slots(self.cutoff)
        start = np.minimum(blocks.n_above, end)
        sums = discount_sums(int(end.max(initial=0)), self.discount)
        mean: FloatArray = (sums[end] - sums[start]).astype(np.float64) / blocks.size
        return mean

    def _ideal(self, n_relevant: IntArray, n_pool: IntArray) -> FloatArray:
        count = self.depth(n_pool)
        if self.ideal != "k":
            count = np.asarray(n_relevant) if self.ideal == "all" else np.minimum(n_relevant, count)
        sums = discount_sums(int(np.max(count, initial=0)), self.discount)
        ideal: FloatArray = sums[count].astype(np.float64)
        return ideal
