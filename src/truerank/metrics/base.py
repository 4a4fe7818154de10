"""Base classes of metrics: a gain per target, summed over the targets of a user, averaged over users.

Under the tie policy ``expected`` the gain of a tied target is its exact mean over all orders of the tied
block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidParameter, check_cutoff
from truerank.core.plugin import Plugin
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.ties import ResolvedRanks, TiedBlocks


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
