"""All candidates as negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.ranks import Design
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.ranking.negatives import Negatives, Rows, Sampler


@dataclass(frozen=True)
class Full(Sampler):
    """Every unseen item that is not a target: the sampled rank is the exact rank.

    For checks, and for scorers that can only score lists of candidates. ``exact_ranks`` is faster.

    Examples
    --------
    >>> str(Full())
    'full'
    """

    key: ClassVar[str] = "full"

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the candidates."""
        if len(rows) and rows.n_free.min() < 1:
            raise InvalidData(
                f"{self} must find an unseen item that is not a target for each user, but user "
                f"{rows.user_id(int(rows.n_free.argmin()))!r} has none. Leave that user out or use seen=keep."
            )
        return _AllNegatives(rows)


@dataclass(frozen=True, eq=False)
class _AllNegatives:
    rows: Rows

    @property
    def design(self) -> Design:
        return Design("uniform", replacement=False, shared=True)

    @property
    def sizes(self) -> IntArray:
        return self.rows.n_free

    @property
    def n_candidates(self) -> IntArray:
        return self.rows.n_free

    def sample(self, start: int, stop: int) -> IntArray:
        parts = [self.rows.candidates(row) for row in range(start, stop)]
        return np.concatenate(parts).astype(np.int32)
