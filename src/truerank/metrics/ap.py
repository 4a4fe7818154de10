"""Average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import CannotEstimate, check_choice
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import ResolvedRanks, TiedBlocks, mean_over_retrieved, reciprocal_sum

NORMS = ("min", "rel", "k", "hits")


@dataclass(frozen=True)
class Ap(RankMetric):
    r"""Mean of the precision at the relevant items in the first K.

    Libraries divide by different numbers, hence ``norm``. Time O(1) per target, tied or not.

    .. math:: \text{AP@}K = \frac{1}{\text{norm}} \sum_{R \in S} 1[R \le K] \frac{a_R + 1}{R}

    with a_R the number of relevant items above the one at rank R.

    Parameters
    ----------
    cutoff : K; None for the whole list
    norm : ``min`` is min(s, K), the most relevant items that fit; ``rel`` is s, all of them; ``k`` is K;
        ``hits`` is the number of relevant items found in the first K, so that finding more can lower the
        value. With ``hits`` the metric is not a sum over targets and cannot be estimated from sampled ranks.

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Ap(10).per_user(Ranks.single([0, 3, 10], n_pool=100)).tolist()
    [1.0, 0.25, 0.0]
    """

    norm: Literal["min", "rel", "k", "hits"] = "min"
    key: ClassVar[str] = "ap"
    source: ClassVar[Source] = Source("rendle2019", "Eq. 7")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("norm", self.norm, NORMS)

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return self.norm == "k" and self.cutoff is None

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return 1[rank <= K] (n_relevant_above + 1) / rank / norm."""
        if self.norm == "hits":
            raise CannotEstimate(
                f"{self} is not a sum over targets, so its gain is undefined. Use norm=min, rel or k."
            )
        return self._precision(rank, n_relevant_above) / self._norm(n_relevant, n_pool)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean precision at the block's slots, 0 beyond the cut-off, / norm."""
        return self._expected_precision(blocks) / self._norm(blocks.n_relevant, blocks.n_pool)

    def totals(self, ranks: ResolvedRanks) -> FloatArray:
        """Return one value per user from ranks whose ties are already resolved."""
        if self.norm != "hits":
            return super().totals(ranks)
        precision = self._precision(ranks.rank, ranks.n_relevant_above)
        if len(ranks.tied):
            precision[ranks.tied] = self._expected_precision(ranks.blocks)
        return mean_over_retrieved(ranks, precision, self.cutoff)

    def _precision(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
        return self.is_within(rank) * (np.asarray(n_relevant_above) + 1) / rank

    def _expected_precision(self, blocks: TiedBlocks) -> FloatArray:
        # Given slot j the mean number of relevant items before it is above + fraction (j - 1), so the sum
        # over the slots of (above + 1 + fraction (j - 1)) / (n_above + j) needs one sum of reciprocals.
        slots = blocks.slots(self.cutoff)
        fraction = (blocks.n_tied_relevant - 1) / np.maximum(blocks.size - 1, 1)
        reciprocals = reciprocal_sum(blocks.n_above, slots)
        first = (blocks.n_relevant_above + 1) * reciprocals
        return (first + fraction * (slots - (blocks.n_above + 1) * reciprocals)) / blocks.size

    def _norm(self, n_relevant: IntArray, n_pool: IntArray) -> IntArray:
        if self.norm == "rel":
            return np.asarray(n_relevant)
        depth = self.depth(n_pool)
        return depth if self.norm == "k" else np.minimum(n_relevant, depth)
