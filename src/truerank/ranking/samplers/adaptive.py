"""Adaptive negatives: the sample of a target grows as long as its sampled rank stays near the top."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.plugin import Source
from truerank.core.ranks import Design, Stopping
from truerank.core.split import Split
from truerank.ranking.growing import GrowingNegatives
from truerank.ranking.negatives import Rows, Sampler

MOST_ROUNDS = 64


@dataclass(frozen=True)
class Adaptive(Sampler):
    r"""Samples of start, 2 start, ... items, as long as the target stays near the top of them.

    Top-K metrics depend on the targets of high rank, which a small sample cannot tell apart: they all rank
    first in it. Such targets get more negatives; for the others a small sample is enough. Sizes count the
    target, as in the paper: ``start=100`` means 99 negatives.

    Parameters
    ----------
    start : size of the first sample, the target counted
    max : size of the last one
    factor : each size is the one before times this, rounded to an integer
    while_rank : q; sample on while the sampled rank is at most q. The rank is 1 + the negatives that score
        *strictly* higher: ties are won, and other targets of the user do not count
    replace : whether to sample with replacement; if not, a sample ends with the last candidate and its rank
        is the exact one
    shared : whether several models get the same negatives; if not, samples also depend on the model's label
    per : one sequence of negatives per ``user``, shared by all its targets, or one per ``target``

    Notes
    -----
    The first sample is that of ``uniform(m=start-1)``, the next ones continue it. Each target of a user stops
    by its own rank, so its negatives are the first ones of the user's sequence. Scores are computed once for
    the longest sample of the user, and that number is reported.

    Examples
    --------
    >>> Adaptive(max=400).stopping
    Stopping(sizes=(99, 199, 399), rank=1)
    >>> str(Adaptive(max=400, while_rank=5))
    'adaptive(max=400, while_rank=5)'
    """

    start: int = 100
    max: int = 3200
    factor: float = 2
    while_rank: int = 1
    replace: bool = False
    shared: bool = True
    per: Literal["user", "target"] = "user"

    key: ClassVar[str] = "adaptive"
    source: ClassVar[Source | None] = Source("li2023", "Algorithm 1")

    def __post_init__(self) -> None:
        for name, least in (("start", 2), ("max", 2), ("while_rank", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise InvalidParameter(f"{name} must be an integer >= {least}, got {value!r}.")
            check_at_least(name, int(value), least)
        if not self.start <= self.max < 2**31:
            raise InvalidParameter(
                f"max must be at least start, {self.start}, and below 2**31, got {self.max}."
            )
        if not 1 < self.factor < np.inf:
            raise InvalidParameter(f"factor must be greater than 1, got {self.factor!r}. Use for example 2.")
        if len(self.stopping.sizes) > MOST_ROUNDS:
            raise InvalidParameter(
                f"factor must lead from start={self.start} to max={self.max} in at most {MOST_ROUNDS} "
                f"rounds, got {self.factor!r}. Use for example 2."
            )

    @property
    def stopping(self) -> Stopping:
        """The rule, with sizes that do not count the target."""
        sizes = [self.start]
        while sizes[-1] < self.max and len(sizes) <= MOST_ROUNDS:
            grown = sizes[-1] * self.factor
            sizes.append(self.max if grown >= self.max else max(sizes[-1] + 1, round(grown)))
        return Stopping(tuple(size - 1 for size in sizes), self.while_rank)

    @property
    def is_shared(self) -> bool:
        """Whether several models get the same negatives."""
        return self.shared

    @property
    def is_per_target(self) -> bool:
        """Whether each target of a user gets negatives of its own."""
        return self.per == "target"

    def negatives(self, split: Split, rows: Rows) -> GrowingNegatives:
        """Return the negatives, to be sampled in rounds."""
        if len(rows) and rows.n_free.min() < 1:
            raise InvalidData(
                f"{self} must find an unseen item that is not a target for each user, but user "
                f"{rows.user_id(int(rows.n_free.argmin()))!r} has none. Leave that user out or use seen=keep."
            )
        design = Design("uniform", replacement=self.replace, shared=self.shared, stopping=self.stopping)
        return GrowingNegatives(rows, self.stopping, design)
