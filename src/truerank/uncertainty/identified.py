"""Identification bounds as an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.bounds.problem import Pools, Shape
from truerank.core.check import check_choice
from truerank.core.interval import Band
from truerank.core.uncertainty import Estimated
from truerank.uncertainty.ends import BOUNDS, allowed
from truerank.uncertainty.kind import Asked, Kind


@dataclass(frozen=True)
class Identified(Kind):
    """All values that the sampled ranks allow, whatever the estimator says.

    The only interval that holds at its level for every rank distribution; wide where K is small against the
    pool. It need not contain the estimate. A quarter of a second per metric.

    Parameters
    ----------
    shape : none, or ``decreasing`` where a rank is known to be at most as frequent as any better one
    pools : ``free`` lets ranks depend on the size of the pool, ``shared`` does not

    Examples
    --------
    >>> str(Identified(shape="decreasing"))
    'bounds(shape=decreasing)'
    """

    shape: Shape | None = None
    pools: Pools = "free"
    key: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape or "decreasing", ("decreasing",))
        check_choice("pools", self.pools, ("free", "shared"))

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the bounds."""
        ends = allowed(
            found,
            target=asked.target,
            level=asked.level,
            shape=self.shape,
            pools=self.pools,
            seed=asked.seed,
            progress=asked.progress,
        )
        name = BOUNDS if self.shape is None else f"{BOUNDS}, {self.shape}"
        return Band(ends[:, 0], ends[:, 1], (name,) * len(ends))
