"""Ranks of targets, exact or among sampled negatives, and distributions over ranks.

Ranks are kept as counts (items above, items tied), one row per (user, target); the tie policy is applied
last. ``Design`` says how negatives were sampled, ``Stopping`` how an adaptive sample grows: negatives are
added in rounds until the target is no longer near the top. ``RankDistribution`` holds what an estimator
infers: weights over the ranks among all items.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np

from truerank.core.display import Displayed, Overview
from truerank.core.errors import MOST_ITEMS, InvalidData, InvalidParameter
from truerank.core.table import Table, count_of, rounded_percent
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Stopping:
    """Stopping rule of adaptive samples: grow to the next size while the sampled rank is at most ``rank``.

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


TiePolicy: TypeAlias = Literal["expected", "best", "worst", "random"]
TIE_POLICIES: tuple[TiePolicy, ...] = ("expected", "best", "worst", "random")
SeenPolicy: TypeAlias = Literal["remove", "bottom", "keep"]
SEEN_POLICIES: tuple[SeenPolicy, ...] = ("remove", "bottom", "keep")


class _RankTable(Displayed):
    """What exact and sampled ranks show of themselves."""

    user: IntArray
    n_above: IntArray
    n_pool: IntArray

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        n_rows = len(self.user)
        sizes = f"{count_of(n_rows, 'target')} of {count_of(len(_starts(self.user)), 'user')}"
        rows = tuple(
            (f"rank at most {cutoff:,}", rounded_percent(float((self.n_above < cutoff).mean())))
            for cutoff in (1, 10, 100, 1_000)
            if n_rows and cutoff <= self._longest()
        )
        title = f"{type(self).__name__} of {sizes}{self._among()}"
        return Overview(title, Table(("ties won", "targets"), rows), is_short=True)

    def _longest(self) -> int:
        return int(self.n_pool.max())

    def _among(self) -> str:
        return f" among up to {count_of(int(self.n_pool.max()), 'item')}" if len(self.user) else ""

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, one entry per row; ``gain`` where targets are graded."""
        named = {entry.name: getattr(self, entry.name) for entry in fields(cast(Any, self))}
        return {name: column for name, column in named.items() if isinstance(column, np.ndarray)}

    def take(self, rows: np.ndarray) -> Self:
        """Return some of the rows; those of one user must still lie together.

        Examples
        --------
        >>> Ranks.single([0, 3, 5], n_pool=9).take(np.array([0, 2])).n_above.tolist()
        [0, 5]
        """
        part = {name: column[rows] for name, column in self.columns().items()}
        return cast(Self, replace(cast(Any, self), **part))

    def to_polars(self) -> pl.DataFrame:
        """Return one row per target; users and items are codes."""
        import polars as pl

        return pl.DataFrame(self.columns())


@dataclass(frozen=True, eq=False, repr=False)
class Ranks(_RankTable):
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
    gain : (n,) how much each target is worth, above 0; None where all are worth the same

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
    gain: FloatArray | None = None

    def __post_init__(self) -> None:
        _freeze_columns(self)
        _check_rows(self, _rank_conditions)
        _check_together(self.user)

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
        return _starts(self.user)

    @property
    def n_users(self) -> int:
        """Users with at least one target."""
        return len(self.starts)

    def where(self, kept: BoolArray) -> Ranks:
        """Return the ranks of some targets; pools and lists stay as they are.

        A target that is left out becomes an item of the pool that is not relevant: it keeps its place in the
        list, and what is counted of the others (``n_relevant``, ``n_relevant_above``, ``n_relevant_tied``)
        are the targets that stay.

        Parameters
        ----------
        kept : (n,) whether a row stays

        Examples
        --------
        >>> two, zeros, ones = np.array([2, 2]), np.array([0, 0]), np.array([0, 1])
        >>> ranks = Ranks(zeros, ones, np.array([0, 3]), zeros, two + 7, two, ones, zeros)
        >>> second = ranks.where(np.array([False, True]))
        >>> second.best.tolist(), second.n_relevant.tolist(), second.n_relevant_above.tolist()
        ([4], [1], [0])
        """
        part = self.take(kept)
        if _keeps_whole_users(self.user, kept):
            return part
        starts = part.starts
        sizes = np.diff(np.append(starts, len(part)))
        owner = np.repeat(np.arange(len(starts)), sizes)
        # targets of a user that tie have the same items above them, and no others have
        order = np.lexsort((part.n_above, owner))
        in_order = part.n_above[order]
        is_new = np.diff(owner, prepend=-1) != 0  # rows are already in the order of their users
        is_new[1:] |= in_order[1:] != in_order[:-1]
        firsts = np.flatnonzero(is_new)
        lengths = np.diff(np.append(firsts, len(order)))
        above, tied = np.empty_like(order), np.empty_like(order)
        above[order] = np.repeat(firsts, lengths) - starts[owner]
        tied[order] = np.repeat(lengths, lengths) - 1
        return replace(part, n_relevant=sizes[owner], n_relevant_above=above, n_relevant_tied=tied)


@dataclass(frozen=True)
class Design:
    """How negatives were sampled.

    Parameters
    ----------
    law : ``uniform``, ``popularity``, ``weighted`` (by other weights) or ``given`` (lists of the user's own)
    replacement : whether an item can be drawn twice
    shared : whether several models were ranked against the same draws
    stopping : the rule by which each target's sample grew; None when its size was fixed beforehand
    n_test_users : the test users from which those evaluated were drawn at random; None when all were taken
    """

    law: Literal["uniform", "popularity", "given", "weighted"] = "uniform"
    replacement: bool = False
    shared: bool = False
    stopping: Stopping | None = None
    n_test_users: int | None = None

    def __post_init__(self) -> None:
        if self.n_test_users is not None and self.n_test_users < 1:
            raise InvalidData(f"n_test_users must be an integer >= 1, got {self.n_test_users}. Correct it.")


@dataclass(frozen=True, eq=False, repr=False)
class SampledRanks(_RankTable):
    """Where each target stands among sampled negatives; what any framework can export as a table.

    Parameters
    ----------
    user, item, n_above, n_tied, n_relevant, n_relevant_above, n_relevant_tied : (n,) as in ``Ranks``, but
        counted among the sampled negatives and the user's other targets
    n_pool : (n,) size of the *global* pool the target competes in, the target included
    n_negatives : (n,) sampled items, the target not counted
    n_candidates : (n,) items the negatives were drawn from: those of the pool that are not relevant, unless
        seen items stand at the bottom of the pool
    design : how they were drawn
    gain : (n,) how much each target is worth; None where all are worth the same. A row of gain 0 is no target
        but an irrelevant item whose place among the targets is known; counts of targets include it

    Raises
    ------
    InvalidData
        When a rank exceeds its sample or the sample exceeds its candidates without replacement.
    """

    user: IntArray
    item: IntArray
    n_above: IntArray
    n_tied: IntArray
    n_pool: IntArray
    n_relevant: IntArray
    n_relevant_above: IntArray
    n_relevant_tied: IntArray
    n_negatives: IntArray
    n_candidates: IntArray
    design: Design = Design()
    gain: FloatArray | None = None

    def __post_init__(self) -> None:
        _freeze_columns(self)
        _check_rows(self, _sample_conditions)
        _check_together(self.user)
        if self.gain is not None and not (np.maximum.reduceat(self.gain, self.starts) > 0).all():
            raise InvalidData(
                "every user must have a target of gain above 0, but some have none. Remove them."
            )
        if self.design.n_test_users is not None and self.n_users > self.design.n_test_users:
            raise InvalidData(
                f"the users of a sample must be at most the {self.design.n_test_users:,} test users they "
                f"were sampled from, got {self.n_users:,}. Correct n_test_users."
            )

    @classmethod
    def single(
        cls,
        n_above: IntArray | list[int],
        *,
        n_negatives: int | IntArray,
        n_pool: int | IntArray,
        n_tied: int | IntArray = 0,
        design: Design | None = None,
    ) -> SampledRanks:
        """Build sampled ranks of one target per user; user and item codes are just row numbers and 0."""
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
            n_negatives=zeros + n_negatives,
            n_candidates=zeros + n_pool - 1,
            design=design or Design(),
        )

    def __len__(self) -> int:
        return len(self.user)

    def _longest(self) -> int:
        return int(self.n_negatives.max()) + 1

    def _among(self) -> str:
        if len(self) == 0:
            return ""
        fewest, most = int(self.n_negatives.min()), int(self.n_negatives.max())
        sizes = count_of(most, "negative") if fewest == most else f"{fewest:,} to {most:,} negatives"
        return f" among {sizes} ({self.design.law})"

    @property
    def starts(self) -> IntArray:
        """First row of each user."""
        return _starts(self.user)

    @property
    def n_users(self) -> int:
        """Users with at least one target."""
        return len(self.starts)

    def where(self, kept: BoolArray) -> SampledRanks:
        """Return the ranks of some targets, of the users who have any.

        The other targets of these users become irrelevant items whose place is known: rows of gain 0.

        Parameters
        ----------
        kept : (n,) whether a row stays a target

        Examples
        --------
        >>> two, ones = np.array([2, 2]), np.array([0, 1])
        >>> sample = SampledRanks(0 * two, ones, ones, 0 * two, two + 7, two, ones, 0 * two, two, two + 5)
        >>> sample.where(np.array([False, True])).gain.tolist()
        [0.0, 1.0]
        """
        if _keeps_whole_users(self.user, kept):
            return self.take(kept)
        gain = kept * (1.0 if self.gain is None else self.gain)
        has_target = np.maximum.reduceat(gain, self.starts) > 0
        sizes = np.diff(np.append(self.starts, len(self)))
        rows = np.repeat(has_target, sizes)
        return replace(self.take(rows), gain=gain[rows])


def check_sampled(given: Any, function: str) -> None:
    """Raise unless a function was given sampled ranks; the message says how these are made.

    Examples
    --------
    >>> check_sampled(Ranks.single([0], n_pool=9), "plan")
    Traceback (most recent call last):
    truerank.core.errors.InvalidParameter: plan needs sampled ranks, got Ranks. Exact ranks leave nothing ...
    """
    if isinstance(given, SampledRanks):
        return
    advice = "Make them with truerank.sampled_ranks(scorer, split)."
    if isinstance(given, Ranks):
        advice = "Exact ranks leave nothing to estimate; truerank.compare(ranks) compares them."
    elif isinstance(given, str | Path) or hasattr(type(given), "columns"):
        advice = "Read a file with truerank.read_sampled_ranks(path, n_items=..., n_negatives=...)."
    raise InvalidParameter(f"{function} needs sampled ranks, got {type(given).__name__}. {advice}")


def _freeze_columns(table: Ranks | SampledRanks) -> None:
    """Make every column a read-only array of one number per row, or say which is not."""
    n_rows = len(table.user)
    if table.gain is not None:
        object.__setattr__(table, "gain", _checked_gain(np.asarray(table.gain), n_rows, table))
    for entry in fields(table):
        column = getattr(table, entry.name)
        if entry.name in ("design", "gain"):
            continue
        array = np.asarray(column)
        if array.dtype.kind not in "iu" or array.shape != (n_rows,):
            raise InvalidData(
                f"{entry.name} must be one integer per row ({n_rows} rows), "
                f"got {array.dtype} of shape {array.shape}."
            )
        object.__setattr__(table, entry.name, frozen(array))


def _checked_gain(gain: np.ndarray, n_rows: int, table: Ranks | SampledRanks) -> FloatArray:
    if gain.dtype.kind not in "iuf" or gain.shape != (n_rows,):
        raise InvalidData(
            f"gain must be one number per row ({n_rows} rows), got {gain.dtype} of shape {gain.shape}."
        )
    is_gain = np.isfinite(gain) & (gain > 0)
    if isinstance(table, SampledRanks):
        is_gain |= gain == 0
    if not is_gain.all():
        row = int(np.argmin(is_gain))
        raise InvalidData(
            f"the gain of a target must be a number above 0, but row {row} (counted from 0) has "
            f"{gain[row]:g}. Leave out items that are worth nothing: they are no targets."
        )
    return frozen(gain.astype(np.float64))


def _keeps_whole_users(user: IntArray, kept: BoolArray) -> bool:
    """Whether no user has rows that stay and rows that do not."""
    return bool(((np.diff(user) != 0) | (np.diff(kept.astype(np.int8)) == 0)).all())


def _starts(user: IntArray) -> IntArray:
    if len(user) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.diff(user, prepend=user[:1] - 1))


def _check_together(user: IntArray) -> None:
    if (user[1:] >= user[:-1]).all():  # sorted, as most tables are: no need to look for repeats
        return
    if len(_starts(user)) != len(np.unique(user)):
        raise InvalidData("rows of one user must lie together. Sort the rows by user.")


# Rows that are checked at a time, so that what is computed for a check stays in the cache.
_CHECKED_ROWS = 1 << 14
_Conditions = Callable[[Any], Iterator[tuple[str, BoolArray]]]


def _check_rows(table: Ranks | SampledRanks, conditions: _Conditions) -> None:
    """Raise unless all rows meet the conditions: sentences, and whether they hold in each row of a part."""
    columns = {
        entry.name: getattr(table, entry.name)
        for entry in fields(table)
        if entry.name not in ("design", "gain")
    }
    for start in range(0, len(table), _CHECKED_ROWS):
        part = {name: column[start : start + _CHECKED_ROWS] for name, column in columns.items()}
        for sentence, holds in conditions(SimpleNamespace(**part, design=getattr(table, "design", None))):
            if not holds.all():
                row = start + int(np.argmin(holds))
                raise InvalidData(
                    f"{sentence}, but row {row} (counted from 0) breaks that. Correct the table."
                )


def _rank_conditions(part: Any) -> Iterator[tuple[str, BoolArray]]:
    yield "n_above must be >= 0", part.n_above >= 0
    yield "n_tied must be >= 0", part.n_tied >= 0
    yield "n_above + n_tied must be smaller than n_pool", part.n_above + part.n_tied < part.n_pool
    yield "n_relevant_above must be >= 0", part.n_relevant_above >= 0
    yield "n_relevant_above must be at most n_above", part.n_relevant_above <= part.n_above
    yield "n_relevant_tied must be >= 0", part.n_relevant_tied >= 0
    yield "n_relevant_tied must be at most n_tied", part.n_relevant_tied <= part.n_tied
    yield (
        "n_relevant must count more targets than lie above or tied",
        part.n_relevant > part.n_relevant_above + part.n_relevant_tied,
    )
    yield "n_relevant must be at most n_pool", part.n_relevant <= part.n_pool
    yield f"n_pool must be at most {MOST_ITEMS:,}", part.n_pool <= MOST_ITEMS


def _sample_conditions(part: Any) -> Iterator[tuple[str, BoolArray]]:
    irrelevant_above = part.n_above - part.n_relevant_above
    irrelevant_tied = part.n_tied - part.n_relevant_tied
    yield "n_negatives must be >= 1", part.n_negatives >= 1
    yield "a sampled rank must be >= 1", irrelevant_above >= 0
    yield "n_tied must be >= 0", irrelevant_tied >= 0
    yield "n_relevant_above must be >= 0", part.n_relevant_above >= 0
    yield "n_relevant_tied must be >= 0", part.n_relevant_tied >= 0
    yield (
        "the sampled rank must be at most n_negatives + 1",
        irrelevant_above + irrelevant_tied <= part.n_negatives,
    )
    yield (
        "n_relevant must count more targets than lie above or tied",
        part.n_relevant > part.n_relevant_above + part.n_relevant_tied,
    )
    yield "n_candidates must be >= 1", part.n_candidates >= 1
    yield f"n_pool must be at most {MOST_ITEMS:,}", part.n_pool <= MOST_ITEMS
    yield f"n_negatives must be at most {MOST_ITEMS:,}", part.n_negatives <= MOST_ITEMS
    yield (
        "n_candidates must be at most the irrelevant items of the pool",
        part.n_candidates <= part.n_pool - part.n_relevant,
    )
    if not part.design.replacement:
        yield (
            "without replacement n_negatives must be at most the candidates they are drawn from",
            part.n_negatives <= part.n_candidates,
        )


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
