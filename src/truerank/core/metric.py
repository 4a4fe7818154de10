"""Metrics as values: a gain per target, summed over a user's targets, averaged over users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from truerank.core.check import check_cutoff
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.registry import Plugin
from truerank.core.types import FloatArray, IntArray


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
        """Return what a target at this rank adds to its user's value; all arguments broadcast.

        Raises
        ------
        CannotEstimate
            When the metric is no sum over targets.
        """

    @abstractmethod
    def per_user(self, ranks: Ranks, *, ties: TiePolicy = "expected", seed: int = 0) -> FloatArray:
        """Return one value per user, in the order of ``ranks.starts``."""
