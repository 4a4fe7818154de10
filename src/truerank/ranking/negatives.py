"""Base classes of samplers of negatives, the rows they sample for, and sampling of one row in NumPy.

Rejection sampling proposes among all items and skips those that are blocked or already taken. Where few items
are left, the candidates are listed instead, each gets a random key, and those with the smallest keys are the
sample. NumPy serves small inputs and rows for which rejection would be slow; ``cpu.sampling_compiled`` the
others.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Vocabulary
from truerank.core.plugin import Plugin
from truerank.core.random import Words, bounded, pair_keys, random_words, uniform_from_words
from truerank.core.ranks import Design
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.ranking.exact import Queries

if TYPE_CHECKING:
    from truerank.ranking.growing import GrowingNegatives


# Below this many negatives NumPy answers before a cached kernel is loaded.
SMALL_SAMPLES = 20_000


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that negatives are sampled for: one per user, or one per target of a user.

    Parameters
    ----------
    queries : users, their targets, and the seen items that are not candidates
    users : ids of the users, for messages
    n_items : size of the catalogue
    owner : (n_rows,) the query that a row belongs to
    pairs : (n_rows + 1,) row r is compared with the targets ``pairs[r]:pairs[r + 1]`` of all queries
    is_per_target : whether each target has a row of its own; if not, rows are the queries in their order
    seed, stage, codes : what the random stream of a row depends on, beside its target; ``codes`` are those of
        the queries' users in the whole data set
    """

    queries: Queries
    users: Vocabulary
    n_items: int
    owner: IntArray
    pairs: IntArray
    is_per_target: bool
    seed: int
    stage: str
    codes: IntArray

    @classmethod
    def of(
        cls, queries: Queries, split: Split, *, per_target: bool, seed: int, repeat: int, label: str
    ) -> Rows:
        """Build the rows; the random state depends on seed, repeat, label, user (and target) alone."""
        targets, number = queries.targets, np.arange(len(queries))
        owner = np.repeat(number, targets.lengths()) if per_target else number
        pairs = np.arange(len(targets.items) + 1) if per_target else targets.indptr
        stage = f"sample/{label}/{repeat}{'/target' if per_target else ''}"
        return cls(
            queries,
            split.train.users,
            split.train.n_items,
            frozen(owner),
            frozen(pairs),
            per_target,
            seed,
            stage,
            queries.users,
        )

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def state(self) -> Words:
        """State of the random stream of each row."""
        user = self.codes[self.owner]
        item = self.queries.targets.items if self.is_per_target else np.zeros(1, np.int64)
        return frozen(pair_keys(self.seed, self.stage, user, item))

    @cached_property
    def n_free(self) -> IntArray:
        """Candidates per row: items that are neither excluded nor targets of its user."""
        free: IntArray = self.queries.targets.lengths() + self.queries.excluded.lengths()
        np.subtract(self.n_items, free, out=free)
        return frozen(free[self.owner] if self.is_per_target else free)

    def blocked(self, row: int) -> IntArray:
        """Return the items that are not candidates of a row: targets and excluded items."""
        owner = int(self.owner[row])
        return np.concatenate([self.queries.targets.of(owner), self.queries.excluded.of(owner)])

    def candidates(self, row: int) -> IntArray:
        """Return the candidates of a row, ascending."""
        is_free = np.ones(self.n_items, np.bool_)
        is_free[self.blocked(row)] = False
        return np.flatnonzero(is_free)

    def user_id(self, row: int) -> object:
        """Return the id of a row's user, for messages."""
        return self.users.decode(self.queries.users[self.owner[[row]]])[0]

    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return excluded items and targets as read-only arrays of the types kernels are compiled for."""
        excluded, targets = self.queries.excluded, self.queries.targets
        return (
            frozen(np.ascontiguousarray(excluded.indptr, np.int64)),
            frozen(np.ascontiguousarray(excluded.items, np.int32)),
            frozen(np.ascontiguousarray(targets.indptr, np.int64)),
            frozen(np.ascontiguousarray(targets.items, np.int32)),
        )


class Negatives(Protocol):
    """The negatives of all rows, sampled when asked for."""

    @property
    def design(self) -> Design:
        """Sampling design."""

    @property
    def sizes(self) -> IntArray:
        """Negatives per row."""

    @property
    def n_candidates(self) -> IntArray:
        """Candidates per row."""

    def sample(self, start: int, stop: int) -> IntArray:
        """Return the negatives of the rows start..stop-1, concatenated, int32."""


@dataclass(frozen=True)
class Sampler(Plugin):
    """Base class of all samplers of negatives."""

    @property
    def is_shared(self) -> bool:
        """Whether several models get the same negatives."""
        return True

    @property
    def is_per_target(self) -> bool:
        """Whether each target of a user gets negatives of its own."""
        return False

    @abstractmethod
    def negatives(self, split: Split, rows: Rows) -> Negatives | GrowingNegatives:
        """Return the negatives of the rows; raise when a row has too few candidates."""


@dataclass(frozen=True)
class RandomSampler(Sampler):
    """Base class of samplers of a fixed number of negatives.

    Parameters
    ----------
    m : negatives per sample, the target not counted
    replace : whether to sample with replacement
    shared : whether several models get the same negatives; if not, samples also depend on the model's label
    per : one sample per ``user``, shared by all its targets, or one per ``target``
    """

    m: int = 99
    replace: bool = False
    shared: bool = True
    per: Literal["user", "target"] = "user"

    def __post_init__(self) -> None:
        if isinstance(self.m, bool) or not isinstance(self.m, numbers.Integral) or not 1 <= self.m < 2**31:
            raise InvalidParameter(f"m must be an integer >= 1, got {self.m!r}. Use for example m=99.")

    @property
    def is_shared(self) -> bool:
        """Whether several models get the same negatives."""
        return self.shared

    @property
    def is_per_target(self) -> bool:
        """Whether each target of a user gets negatives of its own."""
        return self.per == "target"

    @abstractmethod
    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the negatives."""

    def check_sizes(self, rows: Rows, n_candidates: IntArray, what: str) -> None:
        """Raise when a row has too few candidates; ``what`` describes them in the message."""
        short = n_candidates < (1 if self.replace else self.m)
        if not short.any():
            return
        row = int(np.argmax(short))
        advice = (
            "Leave that user out or use seen=keep."
            if self.replace
            else "Sample fewer, or use replace=true, or full."
        )
        raise InvalidData(
            f"{self} must find {1 if self.replace else self.m} {what} for each user, "
            f"but user {rows.user_id(row)!r} has {n_candidates[row]}. {advice}"
        )


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Consecutive rows; the negatives of row start + i lie at ``indptr[i]:indptr[i + 1]``."""

    start: int
    stop: int
    indptr: IntArray


def row_blocks(sizes: IntArray, most: int) -> Iterator[RowBlock]:
    """Yield blocks of consecutive rows with at most ``most`` negatives, but at least one row.

    Examples
    --------
    >>> [(block.start, block.stop) for block in row_blocks(np.array([2, 2, 9, 1]), 4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    start = 0
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(indptr, indptr[start] + most, side="right")) - 1)
        yield RowBlock(start, stop, indptr[start : stop + 1] - indptr[start])
        start = stop


Proposal = Callable[[Words], IntArray]


def uniform_proposal(n_items: int) -> Proposal:
    """Return the map from random words to equally likely items."""
    return lambda word: bounded(word, n_items).astype(np.int64)


def weighted_proposal(cumulated: IntArray) -> Proposal:
    """Return the map from random words to items in proportion to weights, given by their cumulative sums."""

    def propose(word: Words) -> IntArray:
        point = uniform_from_words(word, int(cumulated[-1])).astype(np.int64)
        return np.searchsorted(cumulated, point, side="right")

    return propose


def sample_by_rejection(
    state: np.uint64, propose: Proposal, m: int, *, replacement: bool, blocked: IntArray, n_items: int
) -> IntArray:
    """Return the first m proposals that are not blocked (and, without replacement, not repeated)."""
    is_blocked = np.zeros(n_items, np.bool_)
    is_blocked[blocked] = True
    n_words = m + 16
    while True:
        items = propose(random_words(state, 0, n_words))
        items = items[~is_blocked[items]]
        if not replacement:
            items = items[np.sort(np.unique(items, return_index=True)[1])]
        if len(items) >= m:
            return items[:m]
        n_words *= 2


def sample_with_replacement(state: np.uint64, propose: Proposal, m: int, candidates: IntArray) -> IntArray:
    """Return m candidates sampled with replacement; ``propose`` maps random words to positions among them."""
    n_words = m + 16
    while len(positions := propose(random_words(state, 0, n_words))) < m:
        n_words *= 2
    return candidates[positions[:m]]


def sample_without_replacement(
    state: np.uint64, m: int, candidates: IntArray, weights: FloatArray | None = None
) -> IntArray:
    """Return m distinct candidates, in ascending order: those with the smallest keys.

    Without weights keys are random words, so all subsets are equally likely. With weights w they are
    exponential with rate w: their order is that of successive sampling in proportion to w.
    """
    if m == len(candidates):
        return candidates
    word = random_words(state, 0, len(candidates))
    if weights is None:
        order = np.argsort(word, kind="stable")
    else:
        uniform = ((word >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        order = np.argsort(-np.log(uniform) / weights, kind="stable")
    return candidates[np.sort(order[:m])]
