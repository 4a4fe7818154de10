"""Area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.plugin import Source
from truerank.core.ranks import Ranks
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import RankMetric
from truerank.metrics.ties import TiedBlocks


@dataclass(frozen=True)
class Auc(RankMetric):
    r"""Fraction of (relevant, irrelevant) pairs in the right order; pairs below the cut-off count half.

    Without a cut-off this is the usual area under the ROC curve of one user, and a tie counts half. With one,
    the order below K is taken as unknown, so that each pair of items below K counts half, as in implicit.
    Time O(1) per target, tied or not.

    .. math:: \text{AUC@}K = \frac{1}{2 s (n - s)}
              \sum_{R \in S} \big( n - s - K + 1[R \le K] (n + K + 1 - 2R) \big)

    with n the pool and K = n where there is no cut-off.

    Parameters
    ----------
    cutoff : K; None for the whole list

    Raises
    ------
    InvalidData
        When a pool holds no irrelevant item.

    Notes
    -----
    Without a cut-off this is Eq. (4) of [rendle2019]_. Pairs below K are counted by a telescoping sum over
    the targets above it, which leaves a gain that depends on the rank alone. With several relevant items a
    single gain can therefore lie outside [0, 1/s]; their sum cannot leave [0, 1].

    Examples
    --------
    >>> from truerank.core.ranks import Ranks
    >>> Auc().per_user(Ranks.single([0, 1, 3, 4], n_pool=5)).tolist()  # (5 - R)/4
    [1.0, 0.75, 0.25, 0.0]
    >>> Auc(2).per_user(Ranks.single([1, 2], n_pool=5)).tolist()  # one pair lost; two lost, two unknown
    [0.75, 0.25]
    """

    key: ClassVar[str] = "auc"
    source: ClassVar[Source] = Source("rendle2019", "Eq. 4")

    @property
    def needs_pool(self) -> bool:
        """Whether the value depends on the number of items in the pool."""
        return True

    def check_pool(self, ranks: Ranks) -> None:
        """Raise unless the metric is defined for these pools."""
        super().check_pool(ranks)
        empty = ranks.n_pool == ranks.n_relevant
        if empty.any():
            row = int(np.argmax(empty))
            raise InvalidData(
                f"auc needs an irrelevant item in every pool, but the {ranks.n_pool[row]} items in the pool "
                f"of user {ranks.user[row]} are all relevant. Leave out that user or auc."
            )

    def gain(
        self, rank: IntArray, n_relevant_above: IntArray, n_relevant: IntArray, n_pool: IntArray
    ) -> FloatArray:
        """Return (n - s - K + 1[rank <= K] (n + K + 1 - 2 rank)) / (2 s (n - s))."""
        pool = np.asarray(n_pool, dtype=np.float64)
        last = np.minimum(self.depth(n_pool), pool)
        irrelevant = pool - n_relevant
        won = irrelevant - last + self.is_within(rank) * (pool + last + 1 - 2.0 * rank)
        return won / (2 * n_relevant * irrelevant)

    def expected_gain(self, blocks: TiedBlocks) -> FloatArray:
        """Return the mean of the gain over the block: linear in the slot within the cut-off."""
        pool = blocks.n_pool.astype(np.float64)
        last = np.minimum(self.depth(blocks.n_pool), pool)
        irrelevant = pool - blocks.n_relevant
        slots = blocks.slots(self.cutoff)
        within = slots * (pool + last - 2.0 * blocks.n_above - slots)
        won = irrelevant - last + within / blocks.size
        return won / (2 * blocks.n_relevant * irrelevant)
