"""Hit rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import TiedBlocks, miss_probability


@dataclass(frozen=True)
class Hit(RankMetric):
    r"""1 if any relevant item is in the first K, else 0.

    The first relevant item has the whole gain. Time O(1) per target; in a block with several relevant
    items O(min(K, their number)).

    .. math:: \text{Hit@}K = 1[\min S \le K]

    Parameters
    ----------
    cutoff : K; None for the whole list, where the hit rate is 1

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Hit(1).per_user(Ranks.single([0, 1], n_pool=4, n_tied=1)).tolist()  # the first is tied with one other
    [0.5, 0.0]
    """

    key: ClassVar[str] = "hit"
    source: ClassVar[Source] = Source("deshpande2004", "Sec. 6.2")

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K and n_relevant_above = 0]."""
        is_first: FloatArray = np.equal(n_relevant_above, 0).astype(np.float64)
        return self.is_within(rank) * is_first

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return P(a relevant item of the block is within the cut-off), divided among the tied targets."""
        result = np.zeros(len(blocks.size))
        first = np.flatnonzero(blocks.n_relevant_above == 0)
        relevant = blocks.n_tied_relevant[first]
        missed = miss_probability(blocks.size[first], relevant, blocks.slots(self.cutoff)[first])
        result[first] = (1 - missed) / relevant
        return result
