"""Leave-one-out split: random events of each user are the test part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.errors import check_at_least
from truerank.core.interactions import Interactions
from truerank.core.random import pair_keys
from truerank.core.types import AnyArray
from truerank.split.base import Parts, Splitter
from truerank.split.leave_last_out import leave_out


@dataclass(frozen=True)
class LeaveOneOut(Splitter):
    """Random n events of each user are the test, n others perhaps the validation.

    The choice depends on the seed, the user and the item only, not on the order of the rows. Users with up
    to n events stay in train, those with up to 2 n give no validation event.

    Parameters
    ----------
    n : events per user and part
    valid : whether to make a validation part

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 1], [0, 1, 2, 0])
    >>> split = LeaveOneOut().split(events, seed=1)
    >>> len(split.train), len(split.test)
    (3, 1)
    """

    key: ClassVar[str] = "leave-one-out"
    needs_time: ClassVar[bool] = False
    n: int = 1
    valid: bool = False

    def __post_init__(self) -> None:
        check_at_least("n", self.n, 1)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Assign the events of largest random key to test."""

        def key_of(block: slice) -> AnyArray:
            return pair_keys(seed, "split/leave-one-out", interactions.user[block], interactions.item[block])

        return leave_out(interactions, key_of, self.n, self.valid)
