"""Recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import check_choice
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import TiedBlocks


@dataclass(frozen=True)
class Recall(RankMetric):
    r"""Fraction of a user's relevant items that are in the first K.

    With one relevant item per user this is the hit rate. Time O(1) per target, tied or not.

    .. math:: \text{Recall@}K = \frac{1}{s} \sum_{R \in S} 1[R \le K]

    Parameters
    ----------
    cutoff : K; None for the whole list, where recall is 1
    norm : ``rel`` divides by the number s of relevant items, ``min`` by min(s, K), the most that fit

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Recall(10).per_user(Ranks.single([0, 9, 10], n_pool=100)).tolist()
    [1.0, 1.0, 0.0]
    """

    norm: Literal["rel", "min"] = "rel"
    key: ClassVar[str] = "recall"
    source: ClassVar[Source] = Source("rendle2019", "Eq. 6")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("norm", self.norm, ("rel", "min"))

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] / norm."""
        return self.is_within(rank) / self._norm(n_relevant, n_pool)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the fraction of the block within the cut-off / norm."""
        within = blocks.slots(self.cutoff) / blocks.size
        return within / self._norm(blocks.n_relevant, blocks.n_pool)

    def _norm(self, n_relevant: IntArray, n_pool: IntArray) -> IntArray:
        return n_relevant if self.norm == "rel" else np.minimum(n_relevant, self.depth(n_pool))
