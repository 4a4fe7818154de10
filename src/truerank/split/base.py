"""Splits into train, validation and test: base class and registry of the rules, and samples of test users."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData, InvalidParameter, check_choice, suggests_arguments
from truerank.core.interactions import Interactions, check_interactions
from truerank.core.plugin import Plugin, Registry
from truerank.core.random import pair_keys
from truerank.core.split import Split, check_split
from truerank.core.types import AnyArray, BoolArray, IntArray

TRAIN, VALID, TEST, DROPPED = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
CHUNK = 1 << 20  # rows treated at once, so that scratch stays small whatever the number of rows

Parts = NDArray[np.uint8]


@dataclass(frozen=True)
class Splitter(Plugin, ABC):
    """Base class of rules that assign each event to train, validation or test.

    A rule that looks at no times sets ``needs_time = False``, so that unreadable ones do no harm.
    """

    needs_time: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns beyond user, item, rating and timestamp that the reader must keep."""
        return ()

    def split(
        self,
        interactions: Interactions,
        *,
        seed: int = 0,
        repeated: Literal["refuse", "drop", "keep"] = "refuse",
    ) -> Split:
        """Divide the events; users without targets keep their train events and are counted.

        Parameters
        ----------
        interactions : events; repeated pairs are allowed where the rule keeps them together
        seed : of the random rules; the others ignore it
        repeated : what becomes of a pair of user and item that the rule puts into several parts: ``refuse``
            raises, ``drop`` keeps its events of the last part (test, else validation) and drops the others,
            ``keep`` keeps all, as where people buy again: rank such a split with ``seen="keep"``

        Returns
        -------
        Split
            Its ``counts`` hold ``users_without_targets`` (all their events are in train or validation),
            ``users_without_history`` (targets, but no train event), ``items_without_history`` (target
            items that train does not have) and ``events_dropped``.
        """
        if len(interactions) == 0:
            raise InvalidData(f"{interactions.name!r} must hold at least one event to be split.")
        check_choice("repeated", repeated, ("refuse", "drop", "keep"))
        parts = self.assign(interactions, seed)
        if repeated == "drop":
            parts = one_part_per_pair(interactions, parts)
        method = str(self)
        for role, part in (("train", TRAIN), ("test", TEST)):
            if not (parts == part).any():
                raise InvalidData(
                    f"split {method!r} must give at least one {role} event of {interactions.name!r}, but it "
                    f"gives none. Choose another rule or data with longer histories."
                )
        train, test = interactions.where(parts == TRAIN), interactions.where(parts == TEST)
        valid = interactions.where(parts == VALID)
        in_test, in_train = test.user_counts() > 0, train.user_counts() > 0
        counts = {
            "users_without_targets": int((~in_test).sum()),
            "users_without_history": int((in_test & ~in_train).sum()),
            "items_without_history": int(((test.item_counts() > 0) & (train.item_counts() == 0)).sum()),
            "events_dropped": int((parts == DROPPED).sum()),
        }
        return Split(
            train,
            test,
            valid if len(valid) else None,
            method=method,
            counts=counts,
            repeats=repeated == "keep",
        )

    @abstractmethod
    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Return TRAIN, VALID, TEST or DROPPED for each event."""


def one_part_per_pair(interactions: Interactions, parts: Parts) -> Parts:
    """Return the parts with events dropped whose pair lies in a later part too.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 0], [1, 2, 2, 1])
    >>> one_part_per_pair(events, np.array([TRAIN, TRAIN, VALID, TEST])).tolist()
    [3, 3, 1, 2]
    """
    kept = np.where(parts == DROPPED, TRAIN, parts)
    pair = interactions.user.astype(np.int64) * interactions.n_items + interactions.item
    _, code = np.unique(pair, return_inverse=True)
    last = np.zeros(len(parts), dtype=np.uint8)
    np.maximum.at(last, code, kept)
    return np.where(parts < last[code], DROPPED, parts).astype(np.uint8)


def times_of(interactions: Interactions, rule: str, instead: str) -> AnyArray:
    """Return the times; raise with a rule that needs none if there are none."""
    if interactions.time is None:
        raise InvalidData(
            f"split {rule!r} needs a timestamp for each event, but {interactions.name!r} has none. "
            f"Name the column with columns={{'timestamp': NAME}} or use split {instead!r}."
        )
    return interactions.time


def last_of_each(
    user: IntArray, key_of: Callable[[slice], AnyArray], free: BoolArray, wanted: BoolArray
) -> IntArray:
    """Return for each wanted user the free row with the largest key, among equal keys the last row.

    Parameters
    ----------
    user : (n,) codes
    key_of : the keys of a block of rows; called twice per block, so that keys need not be stored
    free : (n,) rows to choose from
    wanted : (n_users,) users to choose for; users without a free row are left out

    Returns
    -------
    rows, ascending by user
    """
    blocks = [slice(start, start + CHUNK) for start in range(0, len(user), CHUNK)]
    dtype = key_of(slice(0, 1)).dtype
    lowest = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    largest = np.full(len(wanted), lowest, dtype=dtype)
    for block in blocks:
        rows = np.flatnonzero(free[block] & wanted[user[block]])
        np.maximum.at(largest, user[block][rows].astype(np.intp), key_of(block)[rows])
    best_row = np.full(len(wanted), -1, dtype=np.int64)
    for block in blocks:
        users = user[block]
        hit = free[block] & wanted[users] & (key_of(block) == largest[users])
        rows = np.flatnonzero(hit)
        best_row[users[rows]] = rows + block.start  # a later row overwrites an earlier one
    return best_row[best_row >= 0]


SPLITS: Registry[Splitter] = Registry(
    "split",
    {
        "column": "truerank.split.column:Column",
        "last-basket": "truerank.split.last_basket:LastBasket",
        "last-days": "truerank.split.last_days:LastDays",
        "leave-last-out": "truerank.split.leave_last_out:LeaveLastOut",
        "leave-one-out": "truerank.split.leave_one_out:LeaveOneOut",
        "ratio": "truerank.split.ratio:Ratio",
        "temporal": "truerank.split.temporal:Temporal",
    },
    base=Splitter,
)


@suggests_arguments
def make_split(
    interactions: Interactions,
    rule: str | Splitter = "leave-last-out",
    *,
    seed: int = 0,
    repeated: Literal["refuse", "drop", "keep"] = "refuse",
) -> Split:
    """Divide interactions by a rule written as a spec string.

    Parameters
    ----------
    interactions : the events
    rule : such as ``leave-last-out`` or ``last-basket(valid=true)``
    seed : of the random rules; the others ignore it
    repeated : what becomes of pairs of user and item that the rule puts into several parts, see
        `Splitter.split`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0], [0, 1, 2])
    >>> make_split(events, "leave-one-out(n=2)").summary()["n_test"]
    2
    """
    check_interactions(interactions, "make_split")
    return SPLITS.make(rule).split(interactions, seed=seed, repeated=repeated)


@suggests_arguments
def sample_users(split: Split, users: int | float, *, seed: int = 0) -> Split:
    """Return the split with the targets of a uniform sample of the test users, without replacement.

    Train and validation stay as they are. With the same seed a smaller sample is part of a larger one.

    Parameters
    ----------
    split : the split with all test users
    users : how many (an integer >= 1), or the fraction (a number below 1, rounded up to whole users)
    seed : of the sample

    Raises
    ------
    InvalidParameter
        When the number is not one of these or exceeds the test users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 1, 2, 3], [0, 0, 0, 0], n_items=2)
    >>> test = Interactions.from_codes([0, 1, 2, 3], [1, 1, 1, 1], n_items=2)
    >>> some = sample_users(Split(train, test), 0.5)
    >>> len(some.test), some.n_test_users
    (2, 4)
    """
    check_split(split, "sample_users")
    if split.n_test_users is not None:
        raise InvalidData(
            "the users of this split are a sample already. Sample from the split of all test users."
        )
    codes = np.flatnonzero(split.test.user_counts())
    size = _size(users, len(codes))
    keys = pair_keys(seed, "draw-users", codes, np.zeros_like(codes))
    is_drawn = np.zeros(split.test.n_users, dtype=np.bool_)
    is_drawn[codes[np.argsort(keys, kind="stable")[:size]]] = True
    return replace(split, test=split.test.where(is_drawn[split.test.user]), n_test_users=len(codes))


def _size(users: int | float, n_users: int) -> int:
    is_number = isinstance(users, numbers.Real) and not isinstance(users, bool | np.bool_)
    if is_number and 0 < users < 1:
        return max(math.ceil(users * n_users - 1e-9), 1)
    if not is_number or not 1 <= users < math.inf or users != int(users):
        raise InvalidParameter(
            f"users must be an integer >= 1 or a fraction between 0 and 1, got {users!r}. "
            "Write 0.1 for a tenth."
        )
    if users > n_users:
        raise InvalidParameter(
            f"users must be at most the {n_users:,} users that have targets, got {int(users):,}. Lower it."
        )
    return int(users)
