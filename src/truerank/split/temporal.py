"""Test on what happens after one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray
from truerank.split.base import TEST, TRAIN, VALID, Parts, Splitter, times_of
from truerank.split.ratio import check_shares


@dataclass(frozen=True)
class Temporal(Splitter):
    """Events from one moment on are the test, for all users alike.

    The moment is given, or such that the last ``test`` share of all events lies at or after it. Events of
    one time are never divided: those at the cut belong to the later part, so a share may come out larger.
    Users with targets but no train event are counted in ``users_without_history``.

    Parameters
    ----------
    test, valid : shares of all events; ``valid`` are those just before the test
    at : the first moment of the test, in the unit of the times or as a date such as '2015-03-31' (UTC)

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
        check_shares(self.test, self.valid)
        if isinstance(self.at, str):
            _moment(self.at)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare each time with the cuts."""
        time = times_of(interactions, str(self), "ratio")
        cut = _moment(self.at) if self.at is not None else _quantile(time, 1 - self.test)
        parts = np.full(len(time), TRAIN, dtype=np.uint8)
        is_test = time >= cut
        if self.valid:
            before = time[~is_test]
            if len(before):
                share = 1 - self.valid * len(time) / len(before)
                parts[time >= _quantile(before, max(share, 0.0))] = VALID
        parts[is_test] = TEST
        return parts


def _quantile(time: AnyArray, share: float) -> AnyArray:
    """Return the time of the first event after the given share of all events."""
    place = min(int(np.floor(share * len(time) + 1e-9)), len(time) - 1)
    cut: AnyArray = np.partition(time, place)[place]
    return cut


def _moment(at: float | str) -> float:
    if not isinstance(at, str):
        return at
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise InvalidParameter(f"at must be a number or a date such as '2015-03-31', got {at!r}.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
