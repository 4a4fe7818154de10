"""Normalised discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import check_choice
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import Discount, TiedBlocks, discount_sums, log_discount


@dataclass(frozen=True)
class Ndcg(RankMetric):
    r"""Discounted gain of the relevant items in the first K over that of an ideal list.

    Relevance is binary. Time O(1) per target, tied or not, after a table of discount sums (16 bytes per rank
    down to the lowest tied one, or to K).

    .. math:: \text{NDCG@}K = \sum_{R \in S} \frac{1[R \le K]}{\log_2(R + 1)} \Big/
              \sum_{i=1}^{\min(s, K)} \frac{1}{\log_2(i + 1)}

    Parameters
    ----------
    cutoff : K; None for the whole list
    ideal : ``min`` fills the ideal list with min(s, K) relevant items, ``k`` with K of them, so that a user
        with fewer than K relevant items cannot reach 1
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

    ideal: Literal["min", "k"] = "min"
    discount: Discount = "log2"
    key: ClassVar[str] = "ndcg"
    source: ClassVar[Source] = Source("jarvelin2002", "Sec. 2.2")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ideal", self.ideal, ("min", "k"))
        check_choice("discount", self.discount, ("log2", "clip"))

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return self.ideal == "k" and self.cutoff is None

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] discount(rank) / ideal."""
        return self.is_within(rank) * log_discount(rank, self.discount) / self._ideal(n_relevant, n_pool)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean discount of the block's slots, 0 beyond the cut-off, / ideal."""
        end = blocks.n_above + blocks.slots(self.cutoff)
        start = np.minimum(blocks.n_above, end)
        sums = discount_sums(int(end.max(initial=0)), self.discount)
        mean: FloatArray = (sums[end] - sums[start]).astype(np.float64) / blocks.size
        return mean / self._ideal(blocks.n_relevant, blocks.n_pool)

    def _ideal(self, n_relevant: IntArray, n_pool: IntArray) -> FloatArray:
        count = self.depth(n_pool)
        if self.ideal == "min":
            count = np.minimum(n_relevant, count)
        sums = discount_sums(int(np.max(count, initial=0)), self.discount)
        ideal: FloatArray = sums[count].astype(np.float64)
        return ideal
