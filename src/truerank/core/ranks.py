"""Ranks as counts: one row per (user, target)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import IntArray, frozen

TiePolicy: TypeAlias = Literal["expected", "best", "worst", "random"]
TIE_POLICIES: tuple[TiePolicy, ...] = ("expected", "best", "worst", "random")
SeenPolicy: TypeAlias = Literal["remove", "bottom", "keep"]
SEEN_POLICIES: tuple[SeenPolicy, ...] = ("remove", "bottom", "keep")


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where each target stands among the items of its user's pool.

    Rank 1 is best; ``1 + n_above`` is the optimistic rank and ``1 + n_above + n_tied`` the pessimistic one.
    Which of them counts is decided last, by a named tie policy.

    Parameters
    ----------
    user, item : (n,) codes; rows of one user lie together
    n_above : (n,) pool items that score higher than the target, relevant ones included
    n_tied : (n,) other pool items that score exactly the same, relevant ones included
    n_pool : (n,) items the target competes in, the target included
    n_relevant : (n,) targets of that user
    n_relevant_above, n_relevant_tied : (n,) other targets of that user above and tied

    Examples
    --------
    >>> ranks = Ranks.single([0, 3], n_pool=10)
    >>> ranks.best.tolist(), ranks.n_users
    ([1, 4], 2)
    """

    user: IntArray
    item: IntArray
    n_above: IntArray
    n_tied: IntArray
    n_pool: IntArray
    n_relevant: IntArray
    n_relevant_above: IntArray
    n_relevant_tied: IntArray

    def __post_init__(self) -> None:
        for field in fields(self):
            array = np.asarray(getattr(self, field.name))
            if array.dtype.kind not in "iu" or array.shape != np.shape(self.user) or array.ndim != 1:
                raise InvalidData(
                    f"{field.name} must be one integer per row ({len(self.user)} rows), "
                    f"got {array.dtype} of shape {array.shape}."
                )
            object.__setattr__(self, field.name, frozen(array))
        _check_rows(
            [
                ("n_above must be >= 0", self.n_above >= 0),
                ("n_tied must be >= 0", self.n_tied >= 0),
                ("n_above + n_tied must be smaller than n_pool", self.n_above + self.n_tied < self.n_pool),
                ("n_relevant_above must be >= 0", self.n_relevant_above >= 0),
                ("n_relevant_above must be at most n_above", self.n_relevant_above <= self.n_above),
                ("n_relevant_tied must be >= 0", self.n_relevant_tied >= 0),
                ("n_relevant_tied must be at most n_tied", self.n_relevant_tied <= self.n_tied),
                (
                    "n_relevant must count more targets than lie above or tied",
                    self.n_relevant > self.n_relevant_above + self.n_relevant_tied,
                ),
                ("n_relevant must be at most n_pool", self.n_relevant <= self.n_pool),
            ]
        )
        if len(self.starts) != len(np.unique(self.user)):
            raise InvalidData("rows of one user must lie together. Sort the rows by user.")

    @classmethod
    def single(
        cls, n_above: IntArray | list[int], *, n_pool: int | IntArray, n_tied: int | IntArray = 0
    ) -> Ranks:
        """Build ranks of one target per user; user and item codes are just row numbers and 0."""
        above = np.asarray(n_above, dtype=np.int64)
        zeros = np.zeros_like(above)
        return cls(
            user=np.arange(len(above)),
            item=zeros,
            n_above=above,
            n_tied=zeros + n_tied,
            n_pool=zeros + n_pool,
            n_relevant=zeros + 1,
            n_relevant_above=zeros,
            n_relevant_tied=zeros,
        )

    def __len__(self) -> int:
        return len(self.user)

    @property
    def best(self) -> IntArray:
        """Rank when every tie is won."""
        return self.n_above + 1

    @property
    def worst(self) -> IntArray:
        """Rank when every tie is lost."""
        return self.n_above + self.n_tied + 1

    @property
    def starts(self) -> IntArray:
        """First row of each user."""
        if len(self.user) == 0:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(np.diff(self.user, prepend=self.user[:1] - 1))

    @property
    def n_users(self) -> int:
        """Users with at least one target."""
        return len(self.starts)


@dataclass(frozen=True)
class Design:
    """How negatives were drawn.

    Parameters
    ----------
    law : ``uniform``, ``popularity`` or ``given`` (candidate lists of the user's own)
    replacement : whether an item can be drawn twice
    shared : whether several models were ranked against the same draws
    """

    law: Literal["uniform", "popularity", "given"] = "uniform"
    replacement: bool = False
    shared: bool = False


@dataclass(frozen=True, eq=False)
class SampledRanks:
    """Where each target stands among sampled negatives; what any framework can export as a table.

    Parameters
    ----------
    ranks : the counts within the sample; ``ranks.n_pool`` is the *global* pool the sample was drawn for
    n_negatives : (n,) sampled items per row, the target not counted
    design : how they were drawn

    Raises
    ------
    InvalidData
        When a rank exceeds its sample or the sample exceeds the pool without replacement.
    """

    ranks: Ranks
    n_negatives: IntArray
    design: Design = Design()

    def __post_init__(self) -> None:
        negatives = np.asarray(self.n_negatives)
        if negatives.shape != self.ranks.user.shape or negatives.dtype.kind not in "iu":
            raise InvalidData(f"n_negatives must be one integer per row ({len(self.ranks)} rows).")
        object.__setattr__(self, "n_negatives", frozen(negatives))
        irrelevant = self.ranks.worst - 1 - self.ranks.n_relevant_above - self.ranks.n_relevant_tied
        checks = [
            ("n_negatives must be >= 1", negatives >= 1),
            ("the sampled rank must be at most n_negatives + 1", irrelevant <= negatives),
        ]
        if not self.design.replacement:
            fits = negatives <= self.ranks.n_pool - self.ranks.n_relevant
            checks.append(("without replacement n_negatives must be smaller than the pool", fits))
        _check_rows(checks)

    def __len__(self) -> int:
        return len(self.ranks)


def _check_rows(checks: list[tuple[str, np.ndarray]]) -> None:
    for sentence, holds in checks:
        if not holds.all():
            row = int(np.argmin(holds))
            raise InvalidData(f"{sentence}, but row {row} (counted from 0) breaks that. Correct the table.")
