"""What every split rule is, and how its verdict becomes a split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.registry import Plugin
from truerank.core.split import Split
from truerank.core.types import AnyArray, BoolArray, IntArray

TRAIN, VALID, TEST, DROPPED = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
CHUNK = 1 << 20  # rows treated at once, so that scratch stays small whatever the number of rows

Parts = NDArray[np.uint8]


@dataclass(frozen=True)
class Splitter(Plugin, ABC):
    """A rule that says for each event whether it is for train, validation or test."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns beyond user, item, rating and timestamp that the reader must keep."""
        return ()

    def split(self, interactions: Interactions, *, seed: int = 0) -> Split:
        """Divide the events; users without targets are counted in ``Split.counts``, never lost.

        Parameters
        ----------
        interactions : events without repeated pairs
        seed : of the random rules; the others ignore it

        Returns
        -------
        Split
            Its ``counts`` hold ``users_without_targets`` (all their events are in train or validation),
            ``users_without_history`` (targets, but no train event), ``items_without_history`` (target
            items that train does not have) and ``events_dropped``.
        """
        if len(interactions) == 0:
            raise InvalidData(f"{interactions.name!r} must hold at least one event to be split.")
        parts = self.assign(interactions, seed)
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
        return Split(train, test, valid if len(valid) else None, method=method, counts=counts)

    @abstractmethod
    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Return TRAIN, VALID, TEST or DROPPED for each event."""


def times_of(interactions: Interactions, rule: str, instead: str) -> AnyArray:
    """Return the times, or say which rule needs none."""
    if interactions.time is None:
        raise InvalidData(
            f"split {rule!r} needs a timestamp for each event, but {interactions.name!r} has none. "
            f"Name the column with --columns timestamp=NAME or use split {instead!r}."
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
    found = np.full(len(wanted), -1, dtype=np.int64)
    for block in blocks:
        users = user[block]
        hit = free[block] & wanted[users] & (key_of(block) == largest[users])
        rows = np.flatnonzero(hit)
        found[users[rows]] = rows + block.start  # a later row overwrites an earlier one
    return found[found >= 0]
