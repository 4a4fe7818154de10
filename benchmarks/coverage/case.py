"""Which intervals take part in the experiment, and in how many repetitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """An estimator with a kind of interval.

    Parameters
    ----------
    estimator : its spec; bounds are those of any
    uncertainty : kind of interval
    repeats : samples it takes part in
    block : so many are one piece of work
    """

    estimator: str
    uncertainty: str
    repeats: int = 500
    block: int = 100

    def blocks(self, most: int) -> list[range]:
        """Return the repetitions of each piece, ``most`` in all at most."""
        last = min(self.repeats, most)
        return [range(first, min(first + self.block, last)) for first in range(0, last, self.block)]


#: Worst biases cost most: where 60 of 60 intervals hold, they do in 95 % with a confidence of 95 %.
CASES = (
    Case("naive", "delta"),
    Case("bv(gamma=0.1)", "delta"),
    Case("mle", "delta"),
    Case("smooth", "delta"),
    Case("bv(gamma=0.1)", "bias-aware", repeats=60, block=20),
    Case("any", "bounds", block=500),
)
