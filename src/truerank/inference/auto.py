"""The interval that fits the number of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.interval import Band, Interval
from truerank.core.types import FloatArray
from truerank.inference.bca import BCa
from truerank.inference.normal import Normal


@dataclass(frozen=True)
class Auto(Interval):
    """``bca`` up to ``most`` users, ``normal`` above, where the two agree and bootstrapping costs seconds.

    The result names the one that was used.
    """

    key: ClassVar[str] = "auto"

    most: int = 50_000

    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return the intervals of the chosen kind."""
        return self.chosen(len(values)).band(values, level=level, seed=seed)

    def chosen(self, n_users: int) -> Interval:
        """Return the interval for so many users."""
        return BCa() if n_users <= self.most else Normal()
