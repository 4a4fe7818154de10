"""What all kinds of intervals do first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from truerank.core.interval import Band
from truerank.core.progress import SILENT, Progress
from truerank.core.uncertainty import Estimated, Target, Uncertainty
from truerank.uncertainty.ends import check_asked, exact_band


@dataclass(frozen=True)
class Asked:
    """What an interval is asked for; see ``Uncertainty.band``."""

    target: Target
    level: float
    seed: int
    progress: Progress


@dataclass(frozen=True)
class Kind(Uncertainty, ABC):
    """A way to make intervals of what is not known exactly."""

    def band(
        self,
        found: Estimated,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return the intervals; those of exact values have no width."""
        check_asked(found, target, level)
        settled = exact_band(found, target)
        if settled is not None:
            return settled
        return self.inexact(found, Asked(target, level, seed, progress))

    @abstractmethod
    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals of estimates."""
