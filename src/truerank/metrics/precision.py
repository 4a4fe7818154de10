"""Precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import TiedBlocks


@dataclass(frozen=True)
class Precision(RankMetric):
    r"""Fraction of the first K items that are relevant.

    A pool with fewer than K items still divides by K. Time O(1) per target, tied or not.

    .. math:: \text{Precision@}K = \frac{1}{K} \sum_{R \in S} 1[R \le K]

    Parameters
    ----------
    cutoff : K; None for the whole pool, where precision is the fraction of relevant items in it

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Precision(10).per_user(Ranks.single([0, 10], n_pool=100)).tolist()
    [0.1, 0.0]
    """

    key: ClassVar[str] = "precision"
    source: ClassVar[Source] = Source("rendle2019", "Eq. 5")

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return self.cutoff is None

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] / K."""
        return self.is_within(rank) / self.depth(n_pool)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the fraction of the block within the cut-off / K."""
        return blocks.slots(self.cutoff) / blocks.size / self.depth(blocks.n_pool)
