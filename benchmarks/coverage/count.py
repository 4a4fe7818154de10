"""How often intervals hold the exact values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.core.types import FloatArray
from truerank.inference.user_interval import Band

_SLACK = 1e-12  # an interval without width holds the value up to rounding


@dataclass
class Count:
    """What was counted of one case, per metric.

    Parameters
    ----------
    held : (n_metrics,) how often the intervals hold the exact values
    width : (n_metrics,) sum over the intervals that were computed
    error : (n_metrics,) sum of estimate minus exact value
    repeats, computed : samples looked at, intervals computed
    method : the intervals' own name for themselves, or why there are none
    """

    held: FloatArray
    width: FloatArray
    error: FloatArray
    repeats: int = 0
    computed: int = 0
    method: tuple[str, ...] = ()

    @classmethod
    def none(cls, n_metrics: int) -> Count:
        """Return that of no samples."""
        held, width, error = np.zeros((3, n_metrics))
        return cls(held, width, error)

    def add(self, band: Band, value: FloatArray, exact: FloatArray) -> None:
        """Count the intervals of one sample."""
        self.held += (band.low - _SLACK <= exact) & (exact <= band.high + _SLACK)
        self.width += band.high - band.low
        self.error += value - exact
        self.repeats += 1
        self.computed += 1
        self.method = band.method

    def add_held(self) -> None:
        """Count intervals that are known to hold the exact values without being computed."""
        self.held += 1
        self.repeats += 1

    def plus(self, other: Count) -> Count:
        """Return that of both samples."""
        return Count(
            self.held + other.held,
            self.width + other.width,
            self.error + other.error,
            self.repeats + other.repeats,
            self.computed + other.computed,
            other.method or self.method,
        )

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        found = {key: value.tolist() for key, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {**found, "repeats": self.repeats, "computed": self.computed, "method": list(self.method)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Count:
        """Return what ``as_json`` was of."""
        held, width, error = np.array([found[key] for key in ("held", "width", "error")], dtype=np.float64)
        return cls(held, width, error, found["repeats"], found["computed"], tuple(found["method"]))
