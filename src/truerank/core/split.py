"""Split: train, validation and test events of one data set, which share no user-item pair unless asked to.

A split also knows what makes a held-out event easier than it looks: that a train event of the same user has
the same time (they were bought together), and that the user had the item before (it is bought again).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from truerank.core.display import Displayed, Overview
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, reading_advice
from truerank.core.table import Table, count_of
from truerank.core.types import AnyArray, IntArray, frozen

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Split(Displayed):
    """Train, test and perhaps validation events over the same vocabularies.

    Parameters
    ----------
    train, test, valid : events; no pair of test or valid lies in train, nor one of test in valid
    method : the spec string that made it
    counts : what was left out and why, such as ``users_without_targets``
    n_test_users : test users that those of ``test`` were drawn from at random; None when all are there
    repeats : whether a pair may lie in several parts, as where people buy again; such a split is ranked
        with seen items kept

    Raises
    ------
    InvalidData
        When the parts do not share vocabularies or a pair lies in two parts.
    """

    train: Interactions
    test: Interactions
    valid: Interactions | None = None
    method: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    n_test_users: int | None = None
    repeats: bool = False

    def __post_init__(self) -> None:
        parts = [("train", self.train), ("test", self.test)]
        if self.valid is not None:
            parts.append(("valid", self.valid))
        for name, part in parts:
            if part.users != self.train.users or part.items != self.train.items:
                raise InvalidData(
                    f"{name} must use the vocabularies of train. Read it with vocabularies from train."
                )
        if not self.repeats:
            for first, second in itertools.combinations(parts, 2):
                self._check_disjoint(first, second)

    def _check_disjoint(self, *pair: tuple[str, Interactions]) -> None:
        (first, _), (second, _) = pair
        small, large = sorted((part for _, part in pair), key=len)
        keys = _keys(small, slice(None))
        sieve = np.zeros(1 << 22, dtype=np.bool_)  # the exact test sorts only what passes the sieve
        sieve[keys & (len(sieve) - 1)] = True
        passed = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(large), 1 << 20):  # by blocks: the large part may be most of the memory
            block = _keys(large, slice(start, start + (1 << 20)))
            passed.append(block[sieve[block & (len(sieve) - 1)]])
        shared = np.intersect1d(keys, np.concatenate(passed))
        if len(shared):
            user, item = divmod(int(shared[0]), self.train.n_items)
            raise InvalidData(
                f"{first} and {second} must not share pairs, but {len(shared)} pairs lie in both, such as "
                f"user {self.train.users.decode(np.array([user]))[0]!r} and "
                f"item {self.train.items.decode(np.array([item]))[0]!r}. "
                f"Remove them from one part or merge duplicates before splitting; where people buy again, "
                f"split with repeated='keep' and rank with seen='keep'."
            )

    def parts(self) -> dict[str, Interactions]:
        """Return train, valid where there is one, and test."""
        return {
            "train": self.train,
            **({} if self.valid is None else {"valid": self.valid}),
            "test": self.test,
        }

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        rows = [
            (name, *(f"{number:,}" for number in (len(part), *map(_distinct, (part.user, part.item)))))
            for name, part in self.parts().items()
        ]
        sizes = ", ".join(f"{len(part):,} {name}" for name, part in self.parts().items())
        method = f" by {self.method}" if self.method else ""
        return Overview(
            f"Split of {self.train.name!r}{method}: {sizes} events",
            Table(("part", "events", "users", "items"), tuple(rows)),
            [
                f"{count_of(self.train.n_users, 'user')} and {count_of(self.train.n_items, 'item')} in all; "
                f"{count_of(_distinct(self.test.user), 'user')} with targets."
            ],
            is_short=True,
        )

    def to_polars(self) -> pl.DataFrame:
        """Return one row per event, as `Interactions.to_polars`, and its part in the column ``split``."""
        import polars as pl

        frames = [
            part.to_polars().with_columns(pl.lit(name, pl.String).alias("split"))
            for name, part in self.parts().items()
        ]
        return pl.concat(frames)

    @cached_property
    def overlap(self) -> dict[str, int]:
        """What held-out events have in common with train events of the same user.

        ``targets_at_train_times`` are held-out events with the time of a train event, ``targets_in_train``
        those whose pair lies in train or validation too, and ``targets_repeated`` those whose pair stood in
        several rows of the data before these were merged: the user had the item before.
        """
        counts = {}
        if self.train.time is not None and self.test.time is not None:
            counts["targets_at_train_times"] = _n_at_equal_times(self.test, self.train)
        if self.repeats:
            known = np.concatenate([_keys(part, slice(None)) for part in (self.train, self.valid) if part])
            counts["targets_in_train"] = int(np.isin(_keys(self.test, slice(None)), known).sum())
        elif self.test.merged is not None:
            counts["targets_repeated"] = int((self.test.merged > 1).sum())
        return counts

    def summary(self) -> dict[str, int | str]:
        """Return the counts a result reports."""
        lengths = self.test.user_counts()
        summary: dict[str, int | str] = {
            "name": self.train.name,
            "split": self.method,
            "n_users": self.train.n_users,
            "n_items": self.train.n_items,
            "n_train": len(self.train),
            "n_valid": 0 if self.valid is None else len(self.valid),
            "n_test": len(self.test),
            "users_with_targets": int((lengths > 0).sum()),
            "users_without_targets": int((lengths == 0).sum()),
        }
        if self.n_test_users is not None:
            summary["users_drawn_from"] = self.n_test_users
        return {**summary, **self.train.origin, **self.counts, **self.overlap}


def _n_at_equal_times(some: Interactions, others: Interactions) -> int:
    """Return how many of some events have the user and the time of one of the others."""
    sieve = np.zeros(1 << 22, dtype=np.bool_)  # only what passes it is compared exactly
    sieve[_user_time_hash(some, slice(None))] = True
    blocks = [slice(start, start + (1 << 20)) for start in range(0, len(others), 1 << 20)]
    hits = [np.flatnonzero(sieve[_user_time_hash(others, block)]) + block.start for block in blocks]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *hits])
    times, code = np.unique(np.concatenate([_times(some), _times(others)[rows]]), return_inverse=True)
    pair = np.concatenate([some.user, others.user[rows]]).astype(np.int64) * len(times) + code
    return int(np.isin(pair[: len(some)], pair[len(some) :]).sum())


def _user_time_hash(events: Interactions, rows: slice) -> IntArray:
    """Return 22 bits of the user and the time."""
    user = events.user[rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    time = (_times(events)[rows].astype(np.float64) + 0.0).view(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed: IntArray = ((user ^ time) * np.uint64(0xFF51AFD7ED558CCD)) >> np.uint64(42)
    return mixed


def _times(events: Interactions) -> AnyArray:
    return np.empty(0) if events.time is None else events.time


def check_split(given: Any, function: str) -> None:
    """Raise unless a function was given a split; the message says how one is made of what it got."""
    if isinstance(given, Split):
        return
    what = f"{function} needs a Split, got {type(given).__name__}."
    if isinstance(given, Interactions):
        raise InvalidParameter(f"{what} Make one with truerank.make_split(data, 'leave-last-out').")
    raise InvalidParameter(f"{what} {reading_advice(given)} Split these with truerank.make_split(data).")


def _distinct(codes: IntArray) -> int:
    return int(np.count_nonzero(np.bincount(codes))) if len(codes) else 0


def _keys(events: Interactions, rows: slice) -> IntArray:
    keys: IntArray = events.user[rows].astype(np.int64) * events.n_items
    return keys + events.item[rows]


@dataclass(frozen=True, eq=False)
class GroupLabels:
    """Named groups of the users or of the items of a split; every row of ranks lies in one.

    Parameters
    ----------
    by : the spec string of the grouping
    of : whether users or items are grouped; an item's group is that of the targets it is
    names : of the groups, with their cut points, in the order in which they are shown
    label : (n_users,) or (n_items,) the position of each one's group in ``names``
    rule : a sentence that says what decides

    Examples
    --------
    >>> groups = GroupLabels("mine", "items", ("old", "new"), np.array([0, 0, 1]), "By hand.")
    >>> groups.of_rows(np.array([7, 7]), np.array([2, 0])).tolist()
    [1, 0]
    """

    by: str
    of: Literal["users", "items"]
    names: tuple[str, ...]
    label: IntArray
    rule: str = ""

    def __post_init__(self) -> None:
        label = np.asarray(self.label)
        if label.ndim != 1 or label.dtype.kind not in "iu" or not self.names:
            raise InvalidData(
                f"label of {self.by!r} must be a flat array of integers, and groups need names."
            )
        if len(label) and not (label.min() >= 0 and label.max() < len(self.names)):
            raise InvalidData(
                f"labels of {self.by!r} must lie in 0..{len(self.names) - 1}, one for each of its "
                f"{len(self.names)} names, got {label.min()}..{label.max()}."
            )
        if len(set(self.names)) < len(self.names):
            raise InvalidData(f"groups of {self.by!r} must have different names, got {self.names}.")
        object.__setattr__(self, "label", frozen(label))

    def of_rows(self, user: IntArray, item: IntArray) -> IntArray:
        """Return the position of the group of each row, given its user and its target."""
        labels: IntArray = self.label[user if self.of == "users" else item]
        return labels
