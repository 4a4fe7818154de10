"""Last-days split: the last days of all users are the test part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData, check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray
from truerank.split.base import TEST, TRAIN, VALID, Parts, Splitter, times_of

_DAY = 86_400
#: Seconds of each unit, and the second at which one begins: weeks begin on Monday, 1970-01-05.
SECONDS = {"hour": (3_600, 0), "day": (_DAY, 0), "week": (7 * _DAY, 4 * _DAY)}
_LATEST = 10**11  # seconds; in milliseconds this is 1973, so larger times are of a smaller unit


@dataclass(frozen=True)
class LastDays(Splitter):
    """The last days of the data are the test part, the same for all users.

    Days are those of UTC and never divided: the test begins at midnight. It is what a shop asks: what will be
    bought next week? Days without any event count. Users with targets but no train event are counted in
    ``users_without_history``.

    Parameters
    ----------
    test, valid : days of the test and, just before it, of the validation
    unit : what is counted: ``hour``, ``day`` or ``week`` (from Monday)

    Examples
    --------
    >>> day = 86_400
    >>> times = np.array([0, day, 2 * day, 3 * day + 5])
    >>> events = Interactions.from_codes([0, 0, 0, 0], [0, 1, 2, 3], time=times)
    >>> LastDays(test=2).split(events).test.item.tolist()
    [2, 3]
    """

    key: ClassVar[str] = "last-days"
    test: int = 7
    valid: int = 0
    unit: str = "day"

    def __post_init__(self) -> None:
        check_at_least("test", self.test, 1)
        check_at_least("valid", self.valid, 0)
        check_unit(self.unit)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare the day of each event with that of the last one."""
        time = times_of(interactions, str(self), "ratio")
        check_seconds(interactions, time)
        length, shift = SECONDS[self.unit]
        number = (time - shift) // length
        before_end = number.max() - number
        parts = np.full(len(time), TRAIN, dtype=np.uint8)
        parts[before_end < self.test + self.valid] = VALID
        parts[before_end < self.test] = TEST
        return parts


def check_unit(unit: str) -> None:
    """Raise unless a unit of time is known."""
    check_choice("unit", unit, tuple(SECONDS))


def check_seconds(interactions: Interactions, time: AnyArray) -> None:
    """Raise where times cannot be seconds since 1970: days would have the wrong length."""
    latest = time.max(initial=0)
    if latest > _LATEST:
        raise InvalidData(
            f"times of {interactions.name!r} must be seconds to be counted in days, but {latest} would be "
            f"after the year 5000. If they are milliseconds, read them with time_format='ms'."
        )
