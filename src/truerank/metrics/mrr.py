"""Reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import TiedBlocks, mean_reciprocal


@dataclass(frozen=True)
class Mrr(RankMetric):
    r"""One over the rank of the first relevant item, 0 if it is not in the first K.

    Time O(1) per target; in a block with several relevant items at most of the order of sqrt(block size).

    .. math:: \text{RR@}K = \frac{1[\min S \le K]}{\min S}

    Parameters
    ----------
    cutoff : K; None for the whole list

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Mrr(10).per_user(Ranks.single([0, 3, 10], n_pool=100)).tolist()
    [1.0, 0.25, 0.0]
    """

    key: ClassVar[str] = "mrr"
    source: ClassVar[Source] = Source("kantor2000")

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K and n_relevant_above = 0] / rank."""
        is_first: FloatArray = np.equal(n_relevant_above, 0).astype(np.float64)
        return self.is_within(rank) * is_first / rank

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean reciprocal rank of the first relevant item, divided among the tied targets."""
        result = np.zeros(len(blocks.size))
        first = np.flatnonzero(blocks.n_relevant_above == 0)
        relevant, slots = blocks.n_tied_relevant[first], blocks.slots(self.cutoff)[first]
        result[first] = mean_reciprocal(blocks.n_above[first], blocks.size[first], relevant, slots) / relevant
        return result
