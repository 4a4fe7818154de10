"""Adaptive samples: negatives are added in rounds until the target is no longer near the top."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from truerank.core.errors import InvalidParameter


@dataclass(frozen=True)
class Stopping:
    """Draw up to the next size while the sampled rank is at most ``rank``; stop at the last size.

    Parameters
    ----------
    sizes : negatives after each round, strictly increasing; the target is not counted. A pool with fewer
        candidates ends at all of them when nothing is drawn twice.
    rank : the rule's q >= 1; 1 is the paper's: sample on while no sampled item stands above the target

    Examples
    --------
    >>> Stopping((99, 199, 399)).sizes_in(250)
    (99, 199, 250)
    """

    sizes: tuple[int, ...]
    rank: int = 1

    def __post_init__(self) -> None:
        sizes = self.sizes
        if not sizes or sizes[0] < 1 or any(b <= a for a, b in itertools.pairwise(sizes)):
            raise InvalidParameter(
                f"sizes must be numbers of negatives >= 1 that grow from round to round, got {sizes}."
            )
        if self.rank < 1:
            raise InvalidParameter(f"rank must be an integer >= 1, got {self.rank}.")

    def sizes_in(self, n_candidates: int) -> tuple[int, ...]:
        """Return the sizes that a sample without replacement from a pool can have."""
        return (*(size for size in self.sizes if size < n_candidates),) + (
            (n_candidates,) if self.sizes[-1] >= n_candidates else ()
        )
