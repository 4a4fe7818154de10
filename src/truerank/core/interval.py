"""Intervals over users as plug-ins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from truerank.core.registry import Plugin
from truerank.core.types import FloatArray


@dataclass(frozen=True)
class Band:
    """Interval ends per column, and how each was made."""

    low: FloatArray
    high: FloatArray
    method: tuple[str, ...]


@dataclass(frozen=True)
class Interval(Plugin, ABC):
    """A way to say how far the mean over these users may lie from the mean over all users like them."""

    @abstractmethod
    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return intervals for the column means of ``values``, (n_users, n_columns), each within [0, 1]."""
