"""What an estimator infers: weights over global ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray, frozen


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """Weights over global ranks 1..N that sum to 1.

    Parameters
    ----------
    weights : (N,) the weight of rank R at index R - 1; negative ones are allowed for linear methods only
    method : the spec string of the estimator
    signed : whether weights may be negative
    diagnostics : how the fit went, such as iterations and the distance to the optimum

    Examples
    --------
    >>> RankDistribution(np.array([0.5, 0.5]), method="naive").n_pool
    2
    """

    weights: FloatArray
    method: str
    signed: bool = False
    diagnostics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 1 or len(weights) == 0 or not np.isfinite(weights).all():
            raise InvalidData("weights must be a flat, non-empty array of finite numbers.")
        if not self.signed and weights.min() < 0:
            raise InvalidData(f"weights of {self.method!r} must be >= 0, got {weights.min()}.")
        if abs(weights.sum() - 1) > 1e-6:
            raise InvalidData(f"weights must sum to 1, got {weights.sum()}.")
        object.__setattr__(self, "weights", frozen(weights))

    @property
    def n_pool(self) -> int:
        """The number of ranks N."""
        return len(self.weights)
