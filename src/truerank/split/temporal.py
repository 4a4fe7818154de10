"""Temporal split: all events from one time on are the test part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray
from truerank.split.base import TEST, TRAIN, VALID, Parts, Splitter, times_of
from truerank.split.ratio import check_fractions


@dataclass(frozen=True)
class Temporal(Splitter):
    """Events from one time on are the test part, the same time for all users.

    The time is given, or such that the last fraction ``test`` of all events lies at or after it. Events of
    equal time are never divided: those at the boundary belong to the later part, which may become larger.
    Users with targets but no train event are counted in ``users_without_history``.

    Parameters
    ----------
    test, valid : fractions of all events; ``valid`` are those just before the test
    at : the first time of the test, in the unit of the times or as a date such as '2015-03-31' (UTC)

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 2], time=np.array([1, 4, 2, 3]))
    >>> Temporal(test=0.25).split(events).test.item.tolist()
    [1]
    >>> Temporal(at=3).split(events).test.item.tolist()
    [1, 2]
    """

    key: ClassVar[str] = "temporal"
    test: float = 0.1
    valid: float = 0.0
    at: float | str | None = None

    def __post_init__(self) -> None:
        check_fractions(self.test, self.valid)
        if isinstance(self.at, str):
            _moment(self.at)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare each time with the boundaries."""
        time = times_of(interactions, str(self), "ratio")
        first_test_time = _moment(self.at) if self.at is not None else _quantile(time, 1 - self.test)
        parts = np.full(len(time), TRAIN, dtype=np.uint8)
        is_test = time >= first_test_time
        if self.valid:
            before = time[~is_test]
            if len(before):
                fraction = 1 - self.valid * len(time) / len(before)
                parts[time >= _quantile(before, max(fraction, 0.0))] = VALID
        parts[is_test] = TEST
        return parts


def _quantile(time: AnyArray, fraction: float) -> AnyArray:
    """Return the time of the first event after the given fraction of all events."""
    index = min(int(np.floor(fraction * len(time) + 1e-9)), len(time) - 1)
    quantile: AnyArray = np.partition(time, index)[index]
    return quantile


def _moment(at: float | str) -> float:
    if not isinstance(at, str):
        return at
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise InvalidParameter(f"at must be a number or a date such as '2015-03-31', got {at!r}.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
