"""What every sampler of negatives is and gets.

Negatives of one row in plain NumPy: small inputs, and rows for which rejection would be slow.

Rejection draws from all items and passes over those that are blocked or already taken. Where few items are
left, the candidates are written out instead: a key per candidate, the smallest keys are the sample.
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
SMALL_DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class Rows:
    """What negatives are drawn for: one row per user, or one per target of a user.

    Parameters
    ----------
    queries : users, targets, and the seen items that cannot be drawn
    users : the ids of users, for messages
    n_items : size of the catalogue
    owner : (n_rows,) which query a row belongs to
    pairs : (n_rows + 1,) row r is compared with the targets ``pairs[r]:pairs[r + 1]`` of all queries
    state : (n_rows,) where the random words of a row begin
    """

    queries: Queries
    users: Vocabulary
    n_items: int
    owner: IntArray
    pairs: IntArray
    state: Words

    @classmethod
    def of(
        cls, queries: Queries, split: Split, *, per_target: bool, seed: int, repeat: int, label: str
    ) -> Rows:
        """Lay out the rows; the state of a row depends on seed, repeat, label, user (and target) alone."""
        targets = queries.targets
        n_queries, n_pairs = len(queries), len(targets.items)
        owner = np.repeat(np.arange(n_queries), targets.lengths()) if per_target else np.arange(n_queries)
        pairs = np.arange(n_pairs + 1) if per_target else targets.indptr
        user = queries.users[owner]
        stage = f"sample/{label}/{repeat}"
        state = (
            pair_keys(seed, f"{stage}/target", user, targets.items)
            if per_target
            else pair_keys(seed, stage, user, np.zeros_like(user))
        )
        return cls(
            queries, split.train.users, split.train.n_items, frozen(owner), frozen(pairs), frozen(state)
        )

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def n_free(self) -> IntArray:
        """Items per row that are neither excluded nor targets of its user."""
        lengths = self.queries.targets.lengths() + self.queries.excluded.lengths()
        free: IntArray = (self.n_items - lengths)[self.owner]
        return free

    def blocked(self, row: int) -> IntArray:
        """Return the items that cannot be drawn for a row."""
        owner = int(self.owner[row])
        return np.concatenate([self.queries.targets.of(owner), self.queries.excluded.of(owner)])

    def candidates(self, row: int) -> IntArray:
        """Return the items that can be drawn for a row, ascending."""
        is_free = np.ones(self.n_items, np.bool_)
        is_free[self.blocked(row)] = False
        return np.flatnonzero(is_free)

    def user_id(self, row: int) -> object:
        """Return the id of a row's user, for messages."""
        return self.users.decode(self.queries.users[self.owner[[row]]])[0]

    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return excluded items and targets as read-only arrays of the one type kernels are compiled for."""
        excluded, targets = self.queries.excluded, self.queries.targets
        return (
            frozen(np.ascontiguousarray(excluded.indptr, np.int64)),
            frozen(np.ascontiguousarray(excluded.items, np.int32)),
            frozen(np.ascontiguousarray(targets.indptr, np.int64)),
            frozen(np.ascontiguousarray(targets.items, np.int32)),
        )


class Negatives(Protocol):
    """The negatives of all rows, drawn when asked for."""

    @property
    def design(self) -> Design:
        """How they are drawn."""

    @property
    def sizes(self) -> IntArray:
        """Negatives per row."""

    @property
    def n_candidates(self) -> IntArray:
        """Items per row they are drawn from."""

    def draw(self, start: int, stop: int) -> IntArray:
        """Return the negatives of the rows start..stop-1, one row after the other, int32."""


@dataclass(frozen=True)
class Sampler(Plugin):
    """Base of all samplers."""

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
        """Return the negatives of the rows; raise when a row cannot have as many as asked for."""


@dataclass(frozen=True)
class RandomSampler(Sampler):
    """Base of samplers that draw m negatives.

    Parameters
    ----------
    m : negatives per draw, the target not counted
    replace : whether an item can be drawn twice
    shared : whether several models get the same negatives; if not, draws also depend on the model's label
    per : one draw per ``user``, shared by all its targets, or one per ``target``
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
        """Return the draws."""

    def check_sizes(self, rows: Rows, n_candidates: IntArray, what: str) -> None:
        """Raise when some row has too few candidates; ``what`` says which they are."""
        short = n_candidates < (1 if self.replace else self.m)
        if not short.any():
            return
        row = int(np.argmax(short))
        advice = (
            "Leave that user out or use seen=keep."
            if self.replace
            else "Draw fewer, or use replace=true, or full."
        )
        raise InvalidData(
            f"{self} must find {1 if self.replace else self.m} {what} for each user, "
            f"but user {rows.user_id(row)!r} has {n_candidates[row]}. {advice}"
        )


@dataclass(frozen=True, eq=False)
class RowBlock:
    """A run of rows, with where the negatives of each begin."""

    start: int
    stop: int
    indptr: IntArray


def row_blocks(sizes: IntArray, most: int) -> Iterator[RowBlock]:
    """Yield runs of rows with at most ``most`` negatives each, but at least one row.

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
    """Return the map from words to items that are all equally likely."""
    return lambda word: bounded(word, n_items).astype(np.int64)


def weighted_proposal(cumulated: IntArray) -> Proposal:
    """Return the map from words to items as likely as their integer weights, given their running sums."""

    def propose(word: Words) -> IntArray:
        place = uniform_from_words(word, int(cumulated[-1])).astype(np.int64)
        return np.searchsorted(cumulated, place, side="right")

    return propose


def reject(
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


def pick(state: np.uint64, propose: Proposal, m: int, candidates: IntArray) -> IntArray:
    """Return m candidates drawn with replacement; ``propose`` maps words to positions among them."""
    n_words = m + 16
    while len(places := propose(random_words(state, 0, n_words))) < m:
        n_words *= 2
    return candidates[places[:m]]


def select(state: np.uint64, m: int, candidates: IntArray, weights: FloatArray | None = None) -> IntArray:
    """Return m distinct candidates, in ascending order: those with the smallest keys.

    Without weights keys are random words, so all subsets are equally likely. With weights w they are
    exponential with rate w: the order of the keys is that of drawing one after another in proportion to w.
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
