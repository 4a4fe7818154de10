"""Leave-last-out split: the last events of each user are the test part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import check_at_least
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray
from truerank.split.base import TEST, TRAIN, VALID, Parts, Splitter, last_of_each, times_of


@dataclass(frozen=True)
class LeaveLastOut(Splitter):
    """Each user's last n events by time are the test, the n before them perhaps the validation.

    Of equal times, the later row of the file counts as later. A user gives test events only if another
    event stays in train, and validation events only if one stays besides: users with up to n events stay
    in train, those with up to 2 n give no validation event.

    Parameters
    ----------
    n : events per user and part
    valid : whether to make a validation part

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 1], [0, 1, 2, 0], time=np.array([3, 1, 2, 5]))
    >>> split = LeaveLastOut().split(events)
    >>> split.test.item.tolist(), split.counts["users_without_targets"]
    ([0], 1)
    """

    key: ClassVar[str] = "leave-last-out"
    n: int = 1
    valid: bool = False

    def __post_init__(self) -> None:
        check_at_least("n", self.n, 1)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Assign the latest events to test."""
        time = times_of(interactions, str(self), "leave-one-out")
        return leave_out(interactions, lambda block: time[block], self.n, self.valid)


def leave_out(interactions: Interactions, key_of: Callable[[slice], AnyArray], n: int, valid: bool) -> Parts:
    """Give each user's n events of largest key to test and perhaps the next n to validation.

    Costs two passes over the events per left-out event and no sort.
    """
    counts = interactions.user_counts()
    parts = np.full(len(interactions), TRAIN, dtype=np.uint8)
    free = np.ones(len(interactions), dtype=np.bool_)
    for number, part in enumerate((TEST, VALID) if valid else (TEST,), start=1):
        wanted = counts > number * n
        if not wanted.any():  # so many as n would be looked for in vain
            break
        for _ in range(n):
            rows = last_of_each(interactions.user, key_of, free, wanted)
            parts[rows] = part
            free[rows] = False
    return parts
